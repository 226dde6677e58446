//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestWebhookDown: with nobody to answer, no pod of a labelled namespace starts bare: the API server refuses it for want of an answer, and with
// failurePolicy Ignore the backstop does.
func TestWebhookDown(t *testing.T) {
	r := serving(t, orders)
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	forged := k.forge(t, r.api, spec{name: "forged"})
	fenced := k.forge(t, r.api, spec{name: "fenced", annotations: transparent})
	k.admit(t, r.api, spec{name: "before"}, false)
	r.stopAll(t)
	t.Run("K8S-03", func(t *testing.T) {
		const says = `failed calling webhook "pods.injector.toolgate.dev"`
		k.await(t, "refusals", func() error { return k.mustRefuse(t, r.api, spec{name: "bare"}.String(), says) })
		k.apply(t, "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 1, selector: {matchLabels: {app: r}}, template: {"+
			spec{labels: "app: r"}.body()+"}}}")
		k.await(t, "the condition of the ReplicaSet", func() error {
			if got := k.kubectl(t, "get", "replicaset", "r", "-o", "jsonpath={.status.conditions}"); !strings.Contains(got, "failed calling webhook") {
				return fmt.Errorf("found %s", got)
			}
			return nil
		})
		// The injector's own pods, and the cluster's, come back without it.
		r.kubectl(t, "label", "namespace", r.namespace, "toolgate/inject=enabled")
		for _, namespace := range []string{r.namespace, "kube-system", "default"} {
			if p, _ := (&kube{r.m, namespace}).admit(t, r.api, spec{name: "bare"}, true); p.gated() == nil {
				t.Errorf("found %+v in %s", p, namespace)
			}
		}
	})
	r.helm(t, byProcesses+orders+"injection: {failurePolicy: Ignore}\n", "upgrade", "toolgate", chart, "-f", "-", "--set", "image.registry=docker.io,image.tag="+version)
	k.await(t, "the backstop alone", func() error { return k.mustRefuse(t, r.api, spec{name: "bare"}.String(), noSidecar) })
	t.Run("backstop", func(t *testing.T) { testBackstop(t, r, k, forged, fenced) })
	t.Run("deleted", func(t *testing.T) {
		k.kubectl(t, "delete", "mutatingwebhookconfiguration", "toolgate-injector")
		if err := k.mustRefuse(t, r.api, spec{name: "bare"}.String(), noSidecar); err != nil {
			t.Error(err)
		}
	})
	if all := k.pods(t, r.api); len(all) != 1 {
		t.Errorf("found %+v, expected the pod from before alone", all)
	}
}

const noSidecar = `toolgate: the pod has no init container "toolgate" and would not be gated`

// mustRefuse returns an error unless the API server would refuse a pod and says so.
func (k *kube) mustRefuse(t *testing.T, r rest, pod, says string) error {
	a, err := r.create(t.Context(), k.namespace, pod, true)
	if err != nil {
		return err
	}
	if a.code < 400 || !strings.Contains(a.message(), says) {
		return fmt.Errorf("found %d %q, expected it to say %q", a.code, a.message(), says)
	}
	return nil
}

// forge is a pod as the webhook makes it, for somebody who would make it by hand.
func (k *kube) forge(t *testing.T, r rest, s spec) map[string]any {
	t.Helper()
	_, a := k.admit(t, r, s, true)
	var p map[string]any
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatal(err)
	}
	m := p["metadata"].(map[string]any)
	p["metadata"] = map[string]any{"name": m["name"], "labels": m["labels"], "annotations": m["annotations"]}
	delete(p, "status")
	return p
}

// testBackstop: what the policies refuse by themselves. deploy/helm/policies has every validation; here are the cases' own attacks, once more.
func testBackstop(t *testing.T, r *release, k *kube, forged, fenced map[string]any) {
	for _, c := range refusals() {
		t.Run(c.id, func(t *testing.T) {
			for _, a := range c.attacks {
				a.spec.name = "attack"
				if err := k.mustRefuse(t, r.api, a.spec.String(), "toolgate: "); err != nil {
					t.Errorf("%s: %v", a.what, err)
				}
			}
		})
	}
	for _, p := range []map[string]any{forged, fenced} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := r.api.create(t.Context(), k.namespace, string(text), true); err != nil || a.code != 201 {
			t.Fatalf("%v, found %d %s, expected a pod as the webhook makes it to be admitted", err, a.code, a.message())
		}
	}
	for _, c := range []struct {
		what, from string
		do         func(spec, sidecar, tool map[string]any)
		says       string
	}{
		{"K8S-02 host network", "forged", func(s, _, _ map[string]any) { s["hostNetwork"] = true }, "take hostNetwork"},
		{"K8S-06 our user", "forged", func(_, _, c map[string]any) { c["securityContext"] = map[string]any{"runAsUser": 64117} }, "runs as 64117"},
		{"K8S-08 our state", "forged", func(_, _, c map[string]any) {
			c["volumeMounts"] = []any{map[string]any{"name": "toolgate-state", "mountPath": "/x"}}
		}, "mounts a volume of the sidecar"},
		{"K8S-08 another program", "forged", func(_, s, _ map[string]any) { s["command"] = []any{"/bin/sh"} }, "not as the injector makes it"},
		{"K8S-08 another image", "forged", func(_, s, _ map[string]any) { s["image"] = "mirror.test/sidecar:1" }, "expected one of docker.io/toolgate/sidecar"},
		{"K8S-08 a sidecar that ends", "forged", func(_, s, _ map[string]any) {
			for _, of := range []string{"restartPolicy", "startupProbe", "readinessProbe", "livenessProbe"} { // which only a container that stays may have
				delete(s, of)
			}
		}, "restartPolicy: Always"},
		{"K8S-12 another first", "forged", func(s, _, _ map[string]any) {
			s["initContainers"] = append([]any{map[string]any{"name": "istio-init", "image": "i"}}, s["initContainers"].([]any)...)
		}, "must come before istio-init"},
		{"no fence", "fenced", func(s, _, _ map[string]any) { s["initContainers"] = s["initContainers"].([]any)[1:] }, `must have init container "toolgate-fence" first`},
		{"root", "fenced", func(_, _, c map[string]any) { c["securityContext"] = map[string]any{"runAsUser": 0} }, "user id of its own other than 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := copied(t, map[string]map[string]any{"forged": forged, "fenced": fenced}[c.from])
			s := p["spec"].(map[string]any)
			inits := s["initContainers"].([]any)
			c.do(s, inits[len(inits)-1].(map[string]any), s["containers"].([]any)[0].(map[string]any))
			text, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.mustRefuse(t, r.api, string(text), c.says); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("K8S-11", func(t *testing.T) {
		k.refused(t, "labels that begin with toolgate/", "label", "pod", "before", "toolgate/injected-")
		k.refused(t, "adds a capability by which it could get past the sidecar", "debug", "before", "--image=tool.test/tool:1", "--profile=general")
		k.refused(t, "must set runAsNonRoot", "debug", "before", "--image=tool.test/tool:1", "--profile=baseline")
	})
	if err := k.try(nil, "get", "pod", "attack"); err == nil {
		t.Error(errors.New("an attack is there"))
	}
}

func copied(t *testing.T, p map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
