//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var errInjected = errors.New("pods are still injected")

// testManifests: ToolManifests are checked by the API server and by the injector, listed by their risk, and tools from then on.
func testManifests(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled")
	object := func(name, spec string) string {
		return "{apiVersion: toolgate.dev/v1alpha1, kind: ToolManifest, metadata: {name: " + name + "}, spec: " + spec + "}"
	}
	mail := spec{name: "mail", annotations: "toolgate/tool: mail"}
	if err := k.tryApply(mail.String()); err == nil || !strings.Contains(err.Error(), `toolgate: `) || !strings.Contains(err.Error(), "mail") {
		t.Errorf("found %v, expected that there is no tool mail", err)
	}
	for bad, says := range map[string]string{
		strings.Replace(manifestOf("mail", "mail.example"), "risk: low", "risk: none", 1):   "spec.risk",
		strings.Replace(manifestOf("mail", "mail.example"), "owner: e2e", "owners: e2e", 1): "owners",
		manifestOf("mail", `"*"`):               "wildcard",
		manifestOf("mail", "https://x.example"): "without scheme",
		manifestOf("mail", `"bad..example"`):    "toolgate: ",
	} {
		if err := k.tryApply(object("mail", bad)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: found %v, expected it to say %q", bad, err, says)
		}
	}
	k.apply(t, object("mail", manifestOf("mail", "mail.example")))
	t.Cleanup(func() { _ = k.try(nil, "delete", "tm", "mail", "--ignore-not-found") })
	k.kubectl(t, "wait", "tm/mail", "--for=condition=Accepted", "--timeout=30s")
	table := k.kubectl(t, "get", "tm")
	for _, want := range []string{"NAME", "TOOL", "RISK", "VERSION", "OWNER", "ACCEPTED", "mail", "low", "e2e", "True"} {
		if !strings.Contains(table, want) {
			t.Errorf("kubectl get tm: found\n%s\nexpected %q in it", table, want)
		}
	}
	// Both replicas watch on their own.
	k.await(t, "the pod", func() error { return k.tryApply(mail.String()) })
	if p := k.pods(t, r.api); len(p) != 1 || p[0].gated() != nil || !strings.Contains(p[0].Spec.InitContainers[0].env("TOOLGATE_CONFIG"), "mail.example") {
		t.Errorf("found %+v", p)
	}
	// A second object for the same tool: pods can use neither, and both objects say so.
	err := k.tryApply(object("mail-2", manifestOf("mail", "other.example")))
	if err == nil {
		t.Cleanup(func() { _ = k.try(nil, "delete", "tm", "mail-2", "--ignore-not-found") })
		err = errors.New("admitted")
	}
	if !strings.Contains(err.Error(), "toolgate: ") {
		t.Errorf("found %v, expected that the tool has a manifest already", err)
	}
	k.kubectl(t, "delete", "tm", "mail")
	k.await(t, "the tool's end", func() error {
		a, err := r.api.create(t.Context(), k.namespace, spec{name: "late", annotations: "toolgate/tool: mail"}.String(), true)
		if err == nil && a.code == 201 {
			err = fmt.Errorf("found %d", a.code)
		}
		return err
	})
}
