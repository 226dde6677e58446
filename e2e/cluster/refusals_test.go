//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
)

// attack is a pod that would not be gated, or would get at its sidecar.
type attack struct {
	what string
	spec spec
	says string // part of the sentence that kubectl shows
}

// refusal is one bug report of somebody else's software, played against ours; e2e/cases/testdata/ids.txt has the ids.
type refusal struct {
	id      string
	attacks []attack
}

const transparent = "toolgate/mode: transparent"

func refusals() []refusal {
	return []refusal{
		{"K8S-02", []attack{
			{"host network", spec{pod: "hostNetwork: true"}, "hostNetwork"},
			{"host network, transparent", spec{pod: "hostNetwork: true", annotations: transparent}, "hostNetwork"},
			{"host processes", spec{pod: "hostPID: true"}, "hostPID"},
			{"shared processes", spec{pod: "shareProcessNamespace: true"}, "shareProcessNamespace"},
		}},
		{"K8S-04", []attack{
			{"annotation false", spec{annotations: `toolgate/inject: "false"`}, "toolgate/inject"},
			{"annotation disabled", spec{annotations: `toolgate/inject: disabled`}, "toolgate/inject"},
			{"label disabled", spec{labels: `toolgate/inject: disabled`}, "toolgate/inject"},
			{"label false", spec{labels: `toolgate/inject: "false"`}, "toolgate/inject"},
			{"said to be injected", spec{labels: `toolgate/injected: "true"`, annotations: `toolgate/tool: none`}, "none"},
			{"a typo", spec{annotations: `toolgate/tol: orders`}, "toolgate/tol"},
		}},
		{"K8S-06", []attack{
			{"our user", spec{container: "securityContext: {runAsUser: 64117}"}, "64117"},
			{"our user of the pod", spec{pod: "securityContext: {runAsUser: 64117}"}, "64117"},
			{"our group", spec{container: "securityContext: {runAsGroup: 64117}"}, "64117"},
			{"our group of files", spec{pod: "securityContext: {fsGroup: 64117}"}, "64117"},
			{"our group beside others", spec{pod: "securityContext: {supplementalGroups: [5, 64117]}"}, "64117"},
			{"an init container", spec{pod: `initContainers: [{name: i, image: i, securityContext: {runAsUser: 64117}}]`}, "64117"},
			{"could become it", spec{container: "securityContext: {capabilities: {add: [SETUID]}}"}, "SETUID"},
			{"root, transparent", spec{annotations: transparent, container: "securityContext: {runAsUser: 0}"}, "root"},
		}},
		{"K8S-08", []attack{
			{"container of our name", spec{pod: `initContainers: [{name: toolgate, image: i, restartPolicy: Always, env: [{name: TOOLGATE_CONFIG, value: x}]}]`}, "container toolgate has a name"},
			{"container of the fence's name", spec{pod: `initContainers: [{name: toolgate-fence, image: i}]`}, "container toolgate-fence has a name"},
			{"volume of our name", spec{pod: `volumes: [{name: toolgate-ca, emptyDir: {}}]`}, `toolgate-ca`},
			{"mount at our path", spec{pod: `volumes: [{name: v, emptyDir: {}}]`, container: `volumeMounts: [{name: v, mountPath: /var/run/toolgate/ca}]`}, "/var/run/toolgate"},
			{"our Secret", spec{pod: `volumes: [{name: v, secret: {secretName: toolgate-secrets}}]`}, "toolgate-secrets"},
			{"our Secret as a variable", spec{container: `envFrom: [{secretRef: {name: toolgate-secrets}}]`}, "toolgate-secrets"},
			{"our token", spec{pod: `volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, audience: toolgate}}]}}]`}, "audience"},
			{"our port", spec{container: `ports: [{containerPort: 15020}]`}, "15020"},
		}},
		{"K8S-12", []attack{
			{"Istio to be injected", spec{annotations: transparent + `, sidecar.istio.io/inject: "true"`}, "istio"},
			{"Istio injected", spec{annotations: transparent + `, sidecar.istio.io/status: "{}"`, pod: `initContainers: [{name: istio-init, image: i}]`}, "istio-init"},
			{"Linkerd", spec{annotations: transparent + `, linkerd.io/inject: enabled`}, "linkerd"},
		}},
		{"unknown tool", []attack{
			{"of the pod", spec{annotations: "toolgate/tool: nothing"}, "nothing"},
			{"of a container", spec{annotations: "toolgate/tools: tool=nothing"}, "nothing"},
		}},
	}
}

// testRefused: the webhook refuses each, in a sentence of ours.
func testRefused(t *testing.T, r *release, c refusal) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	for i, a := range c.attacks {
		a.spec.name = fmt.Sprintf("a%d", i)
		got, err := r.api.create(t.Context(), k.namespace, a.spec.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		if got.code != 403 && got.code != 422 {
			t.Errorf("%s: found %d, expected a refusal", a.what, got.code)
		}
		if m := got.message(); !strings.HasPrefix(m, `admission webhook "pods.injector.toolgate.dev" denied the request: toolgate: `) || !strings.Contains(m, a.says) {
			t.Errorf("%s: found %q, expected a sentence of %s", a.what, m, a.says)
		}
	}
	if all := k.pods(t, r.api); len(all) > 0 {
		t.Errorf("found pods %+v", all)
	}
	c.attacks[0].spec.name = "shown"
	if err := k.tryApply(c.attacks[0].spec.String()); err == nil || !strings.Contains(err.Error(), "toolgate: ") || !strings.Contains(err.Error(), c.attacks[0].says) {
		t.Errorf("kubectl says %v, expected the sentence", err)
	}
}
