package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

// Namespace is what is known of the pod's namespace.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// Result is an injected pod.
type Result struct {
	Pod      *corev1.Pod // a deep copy of the pod given, with the injection
	Warnings []string    // for the answer to whoever created it, one sentence each
	Changed  bool        // false if the pod was injected already, just so
}

// Mutate injects the sidecar into p, which stays as it is. manifest returns the YAML of a tool's manifest, or an error whose text says
// that there is none. A pod that cannot be injected gives a *Refusal; another error is a fault of the injector's.
func Mutate(p *corev1.Pod, ns Namespace, s *settings.Settings, manifest func(tool string) ([]byte, error)) (*Result, error) {
	return nil, &Refusal{Reason: Invalid, Message: "toolgate: not built yet"}
}
