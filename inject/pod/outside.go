package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

// outside refuses what the node does for a pod where no rule of the pod's own network sees it, and what makes names mean something else to
// the sidecar. Any author of pods may ask for these; a tool's call would then go where its manifest does not say.
func (in *injection) outside() error {
	if err := in.resolution(); err != nil {
		return err
	}
	if in.plan.mode != settings.Transparent {
		return nil
	}
	for _, v := range in.pod.Spec.Volumes {
		if !local(&v.VolumeSource) {
			return refuse(Volume, "the volume %s is mounted by the node over the network, which mode transparent does not see: use a persistentVolumeClaim of a class that the platform offers", v.Name)
		}
	}
	for _, c := range in.containers() {
		if what := asksElsewhere(c); what != "" {
			return refuse(ProbeHost, "the container %s has a host in its %s, and the node would send there what mode transparent does not see: remove host, so that the pod itself is asked", c.Name, what)
		}
	}
	return nil
}

// resolution refuses names of the author's own: an allowed host, and the one that signs callers' tokens, would be wherever the author says.
func (in *injection) resolution() error {
	spec := &in.pod.Spec
	var what string
	switch dns := spec.DNSConfig; {
	case len(spec.HostAliases) > 0:
		what = "hostAliases"
	case spec.HostnameOverride != nil && *spec.HostnameOverride != "":
		what = "hostnameOverride"
	case spec.DNSPolicy == corev1.DNSNone:
		what = "dnsPolicy: None"
	case dns != nil && len(dns.Nameservers) > 0:
		what = "dnsConfig.nameservers"
	case dns != nil && len(dns.Searches) > 0:
		what = "dnsConfig.searches"
	default:
		return nil
	}
	return refuse(Resolution, "the pod sets %s, by which an allowed host could be any: remove it, and have the name put into the cluster's DNS", what)
}

// local reports whether a volume is of a kind that the level restricted of Pod Security knows, or an image: what is in it comes from the
// cluster, or from a driver or class that an administrator set up. Of folders of the node, the backstop decides.
func local(v *corev1.VolumeSource) bool {
	return v.ConfigMap != nil || v.CSI != nil || v.DownwardAPI != nil || v.EmptyDir != nil || v.Ephemeral != nil || v.HostPath != nil ||
		v.Image != nil || v.PersistentVolumeClaim != nil || v.Projected != nil || v.Secret != nil || *v == corev1.VolumeSource{}
}

// asksElsewhere names the probe or hook of c by which the kubelet would ask another host than the pod.
func asksElsewhere(c *corev1.Container) string {
	http := func(h *corev1.HTTPGetAction) bool { return h != nil && h.Host != "" }
	tcp := func(h *corev1.TCPSocketAction) bool { return h != nil && h.Host != "" }
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		if p.probe != nil && (http(p.probe.HTTPGet) || tcp(p.probe.TCPSocket)) {
			return p.name
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []struct {
			name string
			hook *corev1.LifecycleHandler
		}{{"lifecycle.postStart", l.PostStart}, {"lifecycle.preStop", l.PreStop}} {
			if h.hook != nil && (http(h.hook.HTTPGet) || tcp(h.hook.TCPSocket)) {
				return h.name
			}
		}
	}
	return ""
}
