package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

// isolated refuses what would let a container out, or at the sidecar: the host's namespaces, a shared process table, capabilities.
func (in *injection) isolated() error {
	if err := in.alone(); err != nil {
		return err
	}
	spec := &in.pod.Spec
	for _, s := range []struct {
		on   bool
		name string
		why  string
	}{
		{spec.HostNetwork, "hostNetwork", "the host's network cannot be fenced"},
		{spec.HostPID, "hostPID", "the sidecar's memory would be in reach of other processes"},
		{spec.HostIPC, "hostIPC", "it connects the pod with other processes of the host"},
		{spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace, "shareProcessNamespace", "the sidecar's files and memory would be in reach of the tools"},
	} {
		if s.on {
			return refuse(HostNamespace, "the pod sets %s, and %s: remove it", s.name, s.why)
		}
	}
	for _, c := range in.containers() {
		if err := in.confined(c); err != nil {
			return err
		}
	}
	return nil
}

// harmless are capabilities that help no container past a fence, at another process or to another user's id. Whatever is not listed is
// refused, also what later kernels add.
var harmless = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "LEASE", "LINUX_IMMUTABLE", "MKNOD",
	"NET_BIND_SERVICE", "SYS_CHROOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "WAKE_ALARM",
}

// capability is a name without the prefix that some runtimes take off.
func capability(c corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
}

// confined refuses a container with powers, and in transparent mode takes those away that it did not ask for.
func (in *injection) confined(c *corev1.Container) error {
	sc := c.SecurityContext
	if sc != nil && sc.Privileged != nil && *sc.Privileged {
		return refuse(Privilege, "the container %s is privileged, so nothing keeps it in: remove privileged", c.Name)
	}
	if sc != nil && sc.Capabilities != nil {
		for _, add := range sc.Capabilities.Add {
			if !slices.Contains(harmless, capability(add)) {
				return refuse(Privilege, "the container %s adds the capability %s, by which it could get past the sidecar: remove it", c.Name, add)
			}
		}
	}
	if in.plan.mode != settings.Transparent {
		return nil
	}
	if sc == nil {
		sc = &corev1.SecurityContext{}
		c.SecurityContext = sc
	}
	if sc.AllowPrivilegeEscalation != nil && *sc.AllowPrivilegeEscalation {
		return refuse(Privilege, "the container %s sets allowPrivilegeEscalation: true, by which it could take another user's id: set it to false", c.Name)
	}
	no := false
	sc.AllowPrivilegeEscalation = &no
	if sc.Capabilities == nil {
		sc.Capabilities = &corev1.Capabilities{}
	}
	if !slices.ContainsFunc(sc.Capabilities.Drop, func(d corev1.Capability) bool { return capability(d) == "ALL" }) {
		sc.Capabilities.Drop = []corev1.Capability{"ALL"}
		in.warnf("the container %s drops all capabilities now, as mode transparent demands; say so in its securityContext", c.Name)
	}
	return nil
}
