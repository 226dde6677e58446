package policies

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// TestNobodyEntersTheSidecar: what runs in it is not gated, and reads its tokens: sidecar check --config FILE prints what it cannot read.
func TestNobodyEntersTheSidecar(t *testing.T) {
	p := compile(t, render(t, plain), "closed-sidecars")
	for container, refused := range map[string]bool{"toolgate": true, "toolgate-fence": true, "tool": false, "": false} {
		for _, how := range []struct {
			kind, subresource string
			options           any
		}{
			{"PodExecOptions", "exec", &corev1.PodExecOptions{Container: container, Command: []string{"/sidecar"}}},
			{"PodAttachOptions", "attach", &corev1.PodAttachOptions{Container: container}},
		} {
			found := p.judge(t, request{operation: admission.Connect, kind: how.kind, resource: "pods", subresource: how.subresource, object: how.options})
			if (found != nil) != refused {
				t.Errorf("%s into %q: found %v", how.subresource, container, found)
			}
		}
	}
	rules := p.spec.MatchConstraints.ResourceRules
	if len(rules) != 1 || len(rules[0].Resources) != 2 || len(rules[0].Operations) != 1 || rules[0].Operations[0] != "CONNECT" {
		t.Errorf("found rules %+v", rules)
	}
}
