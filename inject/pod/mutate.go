package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/toolgate/toolgate/inject/settings"
)

// Namespace is what is known of the pod's namespace.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

// Result is an injected pod.
type Result struct {
	Pod      *corev1.Pod // a deep copy of the pod given, with the injection
	Warnings []string    // for the answer to whoever created it, one sentence each
	Changed  bool        // false if the pod was injected already, just so
}

// Mutate injects the sidecar into p, which stays as it is. manifest returns the YAML of a tool's manifest, or an error whose text says
// why there is none. A pod that cannot be injected gives a *Refusal; another error is a fault of the settings.
//
// An injected pod may come back, with what others added since: what is ours is made anew, whatever it has become, so that it does not
// matter whose it was. So a pod that pretends to be injected gains nothing.
func Mutate(p *corev1.Pod, ns Namespace, s *settings.Settings, manifest func(tool string) ([]byte, error)) (*Result, error) {
	in := &injection{pod: p.DeepCopy(), namespace: ns, settings: s}
	for _, step := range []func() error{in.strip, in.supported, in.nameFree, in.kept, in.annotations, in.isolated, in.outside, in.identities} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := in.allowed(manifest); err != nil {
		return nil, err
	}
	config, err := in.config(manifest)
	if err != nil {
		return nil, err
	}
	in.tools()
	if err := in.add(config); err != nil {
		return nil, err
	}
	return &Result{Pod: in.pod, Warnings: in.warnings, Changed: !equality.Semantic.DeepEqual(p, in.pod)}, nil
}

// injection is the state of one Mutate.
type injection struct {
	pod       *corev1.Pod // until add, without anything of ours but what tools have
	namespace Namespace
	settings  *settings.Settings
	warnings  []string
	plan      plan
}

// containers are the pod's own, in the order of their start.
func (in *injection) containers() []*corev1.Container {
	all := make([]*corev1.Container, 0, len(in.pod.Spec.InitContainers)+len(in.pod.Spec.Containers))
	for i := range in.pod.Spec.InitContainers {
		all = append(all, &in.pod.Spec.InitContainers[i])
	}
	for i := range in.pod.Spec.Containers {
		all = append(all, &in.pod.Spec.Containers[i])
	}
	return all
}

func (in *injection) container(name string) *corev1.Container {
	all := in.containers()
	i := slices.IndexFunc(all, func(c *corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// add puts our containers first and marks the pod.
func (in *injection) add(config string) error {
	resources, err := in.resources()
	if err != nil {
		return err
	}
	first := []corev1.Container{in.sidecar(config, resources)}
	if in.plan.mode == settings.Transparent {
		fence, err := in.fence(config)
		if err != nil {
			return err
		}
		first = []corev1.Container{fence, first[0]}
	}
	spec := &in.pod.Spec
	spec.InitContainers = append(first, spec.InitContainers...)
	spec.Volumes = append(spec.Volumes, in.volumes()...)
	in.mark()
	return nil
}
