//go:build linux

package main

import (
	"encoding/json"
	"testing"
)

// spec is a pod that no scheduler takes up, so that it is there and runs nowhere. Fields are YAML in flow form.
type spec struct {
	name, generateName  string
	labels, annotations string
	pod                 string // more of the spec
	container           string // more of its one container
}

// body is the pod's metadata and spec, for a template.
func (s spec) body() string {
	name := "name: " + s.name
	if s.generateName != "" {
		name = "generateName: " + s.generateName
	}
	return "metadata: {" + name + ", labels: {" + s.labels + "}, annotations: {" + s.annotations + "}}, spec: {schedulerName: none.test, " +
		comma(s.pod) + "containers: [{name: tool, image: \"tool.test/tool:1\"" + behind(s.container) + "}]}"
}

func (s spec) String() string { return "{apiVersion: v1, kind: Pod, " + s.body() + "}" }

func comma(s string) string {
	if s == "" {
		return ""
	}
	return s + ", "
}

func behind(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

// restricted are what Pod Security demands of a pod of a namespace at restricted.
const (
	restrictedPod       = "securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}"
	restrictedContainer = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
)

// admit has the API server store a pod, or with dryRun say what it would store, and fails the test if it refuses.
func (k *kube) admit(t *testing.T, r rest, s spec, dryRun bool) (stored, answer) {
	t.Helper()
	a, err := r.create(t.Context(), k.namespace, s.String(), dryRun)
	if err != nil {
		t.Fatal(err)
	}
	var p stored
	if a.code != 201 {
		t.Fatalf("found %d %s, expected the pod to be admitted: %s", a.code, a.message(), s)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatal(err)
	}
	return p, a
}
