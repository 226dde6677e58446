package pod

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

// maxContainers bounds the work on a pod: it grows faster than their number, and the API server itself knows no bound but a request's size.
const maxContainers = 128

// maxAnnotations is the API server's own bound in bytes, which it looks at after the webhooks (ValidateAnnotationsSize).
const maxAnnotations = 256 << 10

func size(of map[string]string) int {
	n := 0
	for k, v := range of {
		n += len(k) + len(v)
	}
	return n
}

// supported refuses kinds of pods that the injection cannot hold.
func (in *injection) supported() error {
	p := in.pod
	windows := p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows || p.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows)
	switch {
	case p.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return refuse(Unsupported, "this is the mirror of a static pod, which the kubelet runs without admission: run it from a namespace that is not labelled %s", NamespaceInject)
	case windows:
		return refuse(Unsupported, "Windows pods cannot be fenced: run it in a namespace that is not labelled %s, or on Linux", NamespaceInject)
	case len(p.Spec.Containers)+len(p.Spec.InitContainers) > maxContainers:
		return refuse(Unsupported, "the pod has %d containers, of which %d can be injected: divide it", len(p.Spec.Containers)+len(p.Spec.InitContainers), maxContainers)
	case size(p.Annotations) > maxAnnotations:
		return refuse(Unsupported, "the pod has annotations of %d bytes, of which Kubernetes stores %d: shorten them", size(p.Annotations), maxAnnotations)
	case len(p.Spec.Containers) == 0:
		return refuse(Unsupported, "the pod has no container: give it one")
	}
	for _, kind := range []map[string]string{p.Annotations, p.Labels} {
		if v, ok := kind[NamespaceInject]; ok && v != Enabled && v != "true" {
			return refuse(OptOut, "%s: %q on a pod turns nothing off: the namespace's label decides; remove it from the pod, or run the pod in a namespace without that label", NamespaceInject, v)
		}
	}
	return nil
}

// meshContainers are containers of other sidecars that capture a pod's connections, or that set that up.
var meshContainers = []string{
	"istio-init", "istio-validation", "istio-proxy", "linkerd-init", "linkerd-network-validator", "linkerd-proxy",
	"kuma-init", "kuma-validation", "kuma-sidecar", "consul-connect-inject-init", "consul-dataplane",
}

// otherMesh names what makes another sidecar capture this pod's connections, or is empty. Their webhooks may run after ours, so what
// asks for them counts as well as what they have put there.
func (in *injection) otherMesh() string {
	p, ns := in.pod, in.namespace.Labels
	for _, c := range in.containers() {
		if slices.Contains(meshContainers, c.Name) {
			return "the container " + c.Name
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if key == "sidecar.istio.io/status" || key == "linkerd.io/proxy-version" || key == "ambient.istio.io/redirection" && p.Annotations[key] == "enabled" {
			return "the annotation " + key
		}
	}
	asked := func(key string) string {
		if v, ok := p.Labels[key]; ok {
			return v
		}
		return p.Annotations[key]
	}
	on := func(v string) bool { return v == "true" || v == "enabled" || v == "ingress" }
	istio, linkerd, kuma := asked("sidecar.istio.io/inject"), asked("linkerd.io/inject"), asked("kuma.io/sidecar-injection")
	switch {
	case on(istio):
		return "sidecar.istio.io/inject"
	case istio == "" && (ns["istio-injection"] == "enabled" || ns["istio.io/rev"] != "" && ns["istio-injection"] != "disabled"):
		return "the namespace's label for Istio"
	case asked("istio.io/dataplane-mode") == "ambient", asked("istio.io/dataplane-mode") == "" && ns["istio.io/dataplane-mode"] == "ambient":
		return "istio.io/dataplane-mode: ambient"
	case on(linkerd), linkerd == "" && on(ns["linkerd.io/inject"]):
		return "linkerd.io/inject"
	case on(kuma), kuma == "" && on(ns["kuma.io/sidecar-injection"]):
		return "kuma.io/sidecar-injection"
	}
	return ""
}

// alone refuses two that capture the same connections: which of them gets one would depend on the order of their rules.
func (in *injection) alone() error {
	if in.plan.mode != settings.Transparent {
		return nil
	}
	if what := in.otherMesh(); what != "" {
		return refuse(OtherMesh, "%s has another sidecar capture the pod's connections, as mode transparent does: turn that one off for this pod, or set %s: explicit",
			strings.TrimSpace(what), AnnotationMode)
	}
	return nil
}
