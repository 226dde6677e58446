//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestPolicyMode: without any webhook, the API server itself injects, and the backstop refuses what that cannot do.
func TestPolicyMode(t *testing.T) {
	r := newRelease(t, orders+"injection: {mode: policy}\n")
	if got := r.kubectl(t, "get", "deployment,mutatingwebhookconfiguration", "-o", "name"); got != "" {
		t.Errorf("found %s, expected that nothing runs", got)
	}
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders", "pod-security.kubernetes.io/enforce=restricted")
	probe := spec{name: "probe", pod: restrictedPod, container: restrictedContainer}
	k.await(t, "injection", func() error {
		// The backstop may be in force before the policy that injects, and come between two requests: one is judged by itself.
		a, err := r.api.create(t.Context(), k.namespace, probe.String(), true)
		if err != nil || a.code >= 400 {
			return errors.Join(err, errors.New(a.message()))
		}
		var p stored
		if err := json.Unmarshal(a.body, &p); err != nil {
			return err
		}
		return p.gated()
	})
	k.await(t, "the backstop", func() error {
		s := probe
		s.annotations = "toolgate/tool: nothing"
		return k.mustRefuse(t, r.api, s.String(), noSidecar)
	})
	probe.name, probe.container = "tool", restrictedContainer+`, env: [{name: http_proxy, value: mine}]`
	probe.pod += `, initContainers: [{name: first, image: "tool.test/tool:1", ` + restrictedContainer + `}]`
	p, _ := k.admit(t, r.api, probe, false)
	if err := p.gated(); err != nil {
		t.Fatal(err)
	}
	sidecar, first, tool := p.Spec.InitContainers[0], p.Spec.InitContainers[1], p.Spec.Containers[0]
	if !strings.Contains(sidecar.env("TOOLGATE_CONFIG"), "orders.example") || sidecar.SecurityContext.RunAsUser != 64117 || sidecar.Resources.Limits["memory"] != "128Mi" {
		t.Errorf("found sidecar %+v", sidecar)
	}
	for _, m := range sidecar.VolumeMounts {
		if !strings.HasPrefix(m.Name, "toolgate-") {
			t.Errorf("the sidecar has the mount %+v", m)
		}
	}
	if tool.env("http_proxy") != "mine" || tool.env("HTTP_PROXY") != "" || tool.env("HTTPS_PROXY") == "" || first.env("SSL_CERT_FILE") == "" {
		t.Errorf("found variables %v and %v", tool.Env, first.Env)
	}
	t.Run("refused", func(t *testing.T) {
		open := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
		for _, c := range refusals() {
			for _, a := range c.attacks {
				if !policyJudges[c.id+" "+a.what] {
					continue
				}
				a.spec.name = "attack"
				if err := open.mustRefuse(t, r.api, a.spec.String(), "toolgate: "); err != nil {
					t.Errorf("%s %s: %v", c.id, a.what, err)
				}
			}
		}
		for _, optOut := range []string{`toolgate/inject: "false"`, `toolgate/inject: disabled`} {
			if p, _ := open.admit(t, r.api, spec{name: "out", annotations: optOut, labels: optOut}, true); p.gated() != nil {
				t.Error(p.gated())
			}
		}
	})
	t.Run("K8S-08", func(t *testing.T) { testForgedConfig(t, r) })
	t.Run("controllers", func(t *testing.T) {
		open := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
		open.apply(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 3, parallelism: 3, template: {"+spec{pod: "restartPolicy: Never"}.body()+"}}}")
		open.await(t, "the job's pods", func() error {
			all := open.pods(t, r.api)
			for _, p := range all {
				if err := p.gated(); err != nil {
					t.Fatal(err)
				}
			}
			if len(all) != 3 {
				return fmt.Errorf("found %d", len(all))
			}
			return nil
		})
	})
	// A change of a tool is an upgrade.
	r.helm(t, nextValues+"injection: {mode: policy}\n", "upgrade", "toolgate", chart, "-f", "-", "--set", "image.registry=docker.io,image.tag="+version)
	probe.name, probe.annotations = "mail", "toolgate/tool: mail"
	k.await(t, "the new tool", func() error {
		a, err := r.api.create(t.Context(), k.namespace, probe.String(), true)
		if err == nil && (a.code != 201 || !strings.Contains(string(a.body), "mail.example")) {
			err = fmt.Errorf("found %d %s", a.code, a.message())
		}
		return err
	})
}

// policyJudges are the attacks that the policies refuse; the others are harmless in mode explicit, or no attack where no typo is looked for.
var policyJudges = map[string]bool{
	"K8S-02 host network": true, "K8S-02 host network, transparent": true, "K8S-02 host processes": true, "K8S-02 shared processes": true,
	"K8S-04 said to be injected": true,
	"K8S-06 our user":            true, "K8S-06 our user of the pod": true, "K8S-06 our group": true, "K8S-06 our group of files": true, "K8S-06 our group beside others": true,
	"K8S-06 an init container": true, "K8S-06 could become it": true, "K8S-06 root, transparent": true,
	"K8S-08 container of the fence's name": true, "K8S-08 our Secret": true,
	"K8S-08 our Secret as a variable": true, "K8S-08 our token": true,
	"K8S-12 Istio to be injected": true, "K8S-12 Istio injected": true, "K8S-12 Linkerd": true,
	"unknown tool of the pod": true,
}

// testForgedConfig: a sidecar that the pod's author has written, like ours in all but its config and what it mounts, is made anew.
func testForgedConfig(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	p := k.forge(t, r.api, spec{name: "forged"})
	s := p["spec"].(map[string]any)
	sidecar := s["initContainers"].([]any)[0].(map[string]any)
	for _, e := range sidecar["env"].([]any) {
		if v := e.(map[string]any); v["name"] == "TOOLGATE_CONFIG" {
			v["value"] = strings.ReplaceAll(v["value"].(string), "orders.example", "anywhere.example")
		}
	}
	s["volumes"] = append(s["volumes"].([]any), map[string]any{"name": "mine", "emptyDir": map[string]any{}})
	sidecar["volumeMounts"] = append(sidecar["volumeMounts"].([]any), map[string]any{"name": "mine", "mountPath": "/mine"})
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.api.create(t.Context(), k.namespace, string(text), false)
	if err != nil {
		t.Fatal(err)
	}
	if a.code != 201 {
		t.Fatalf("found %d %s, expected a pod with a sidecar of the chart's", a.code, a.message())
	}
	var is stored
	if err := json.Unmarshal(a.body, &is); err != nil {
		t.Fatal(err)
	}
	if err := is.gated(); err != nil || len(is.Spec.InitContainers) != 1 {
		t.Fatalf("%v; found %+v", err, is.Spec)
	}
	if got := is.Spec.InitContainers[0].env("TOOLGATE_CONFIG"); strings.Contains(got, "anywhere.example") || !strings.Contains(got, "orders.example") {
		t.Errorf("found the author's config %s", got)
	}
	for _, m := range is.Spec.InitContainers[0].VolumeMounts {
		if !strings.HasPrefix(m.Name, "toolgate-") {
			t.Errorf("the sidecar has the mount %+v", m)
		}
	}
}
