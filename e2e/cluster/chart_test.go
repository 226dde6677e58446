//go:build linux

package main

import (
	"context"
	"encoding/json"
	"testing"
)

const chart = "../../deploy/helm/toolgate"

// installed installs the chart with the images under test and more values, in YAML, and takes it away after the test. There is one at a time: what it
// has for the whole cluster has one name.
func installed(t *testing.T, values string) *kube {
	t.Helper()
	k := &kube{onNode(t, tierC).m, "toolgate"}
	k.kubectl(t, "create", "namespace", k.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			k.describe(t)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = k.m.command(ctx, k.m.cache.program("helm"), "-n", k.namespace, "uninstall", "toolgate", "--wait").Run() // it may not have been installed
		if err := k.try(nil, "delete", "crd", "toolmanifests.toolgate.dev", "--ignore-not-found"); err != nil {     // helm keeps it
			t.Error(err)
		}
		if err := k.deleteNamespace(); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	k.helm(t, values, "install", "toolgate", chart, "-f", chart+"/values-laptop.yaml", "-f", "-",
		"--set", "image.registry=docker.io,image.tag="+version, "--wait", "--timeout", "90s")
	return k
}

// values are of an installation with one tool.
const values = `
killSwitch: {enabled: false}
manifests:
  orders: |
    name: orders
    owner: e2e
    version: "1"
    description: Reads orders.
    risk: low
    capabilityClasses: [read_private]
    sideEffects: none
    idempotencyRequired: false
    approvalRequired: false
    timeoutMs: 10000
    egress: {allowedDomains: [orders.example]}
`

// TestInstalledAndInjected: install the chart, label a namespace, and a pod there has its sidecar and becomes Ready; elsewhere it has none.
func TestInstalledAndInjected(t *testing.T) {
	k := installed(t, values)
	tools := k.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders", "pod-security.kubernetes.io/enforce=restricted")
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: tool}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: tool
    image: "` + toolImage + `"
    args: [sleep, 10m]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`
	tools.apply(t, pod)
	if got := containers(t, tools, "tool"); len(got) == 0 || got[0] != "toolgate" {
		t.Errorf("found init containers %v, expected toolgate first", got)
	}
	tools.kubectl(t, "wait", "pod/tool", "--for=condition=Ready", "--timeout=60s")
	plain := onNode(t, tierC)
	plain.apply(t, pod)
	t.Cleanup(func() { _ = plain.try(nil, "delete", "pod", "tool", "--wait=false") })
	if got := containers(t, plain, "tool"); len(got) != 0 {
		t.Errorf("found init containers %v in a namespace without the label", got)
	}
}

// containers are the names of a pod's init containers.
func containers(t *testing.T, k *kube, pod string) []string {
	t.Helper()
	var p struct {
		Spec struct{ InitContainers []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pod", pod, "-o", "json")), &p); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	return names
}
