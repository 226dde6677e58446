package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var (
	ourContainers = []string{SidecarContainer, FenceContainer}
	ourVolumes    = []string{VolumeCA, VolumeCAKey, VolumeState, VolumeToken, VolumeSecrets}
)

// strip takes an earlier injection out of a pod that carries one. What tools were given stays: it is recognized by its value.
func (in *injection) strip() error {
	spec := &in.pod.Spec
	injected := in.pod.Annotations[StatusKey] != "" && in.pod.Labels[LabelInjected] == "true" &&
		slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == SidecarContainer })
	if !injected {
		return nil
	}
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool { return slices.Contains(ourContainers, c.Name) })
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return slices.Contains(ourVolumes, v.Name) })
	for _, c := range in.containers() {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return same(m, bundleMount) || same(m, systemMount)
		})
	}
	return nil
}

func same(a, b corev1.VolumeMount) bool {
	return a.Name == b.Name && a.MountPath == b.MountPath && a.SubPath == b.SubPath && a.SubPathExpr == "" && a.ReadOnly
}

// nameFree refuses whatever of the user's has a name or place of ours: it would be mistaken for ours, or be mounted with our secrets.
func (in *injection) nameFree() error {
	for _, c := range in.containers() {
		if slices.Contains(ourContainers, c.Name) {
			return refuse(NameTaken, "the container %s has a name that is reserved for the injected one: rename it", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if slices.Contains(ourVolumes, m.Name) {
				return refuse(NameTaken, "the container %s mounts the volume %s, which is reserved for the sidecar: remove the mount", c.Name, m.Name)
			}
			if at := strings.TrimRight(m.MountPath, "/"); at == DirCA || strings.HasPrefix(at, DirCA+"/") {
				return refuse(NameTaken, "the container %s mounts the volume %s on %s, where the sidecar's CA is put: mount it elsewhere", c.Name, m.Name, m.MountPath)
			}
		}
		for _, port := range c.Ports {
			if slices.Contains(reservedPorts, port.ContainerPort) || inTools(port.ContainerPort) {
				return refuse(NameTaken, "the container %s has port %d, which the sidecar listens on: use another port", c.Name, port.ContainerPort)
			}
		}
	}
	for _, v := range in.pod.Spec.Volumes {
		if slices.Contains(ourVolumes, v.Name) {
			return refuse(NameTaken, "the volume %s has a name that is reserved for the injected one: rename it", v.Name)
		}
	}
	return nil
}

var reservedPorts = []int32{PortAdmin, PortProbe}

// inTools reports whether a port may be that of some tool's listener. The ranges do not depend on how many tools there are, so that
// adding one breaks no pod.
func inTools(port int32) bool {
	for _, first := range []int32{PortExplicit, PortTransparent, PortDNS} {
		if port >= first && port < first+perPort {
			return true
		}
	}
	return false
}

// perPort is how many tools fit between the first port of one kind and the ports of another, less one that is reserved.
const perPort = 16
