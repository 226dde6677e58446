//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStagedMod: each of Kubernetes' staged modules becomes its release of the same number.
func TestStagedMod(t *testing.T) {
	got := stagedMod("module k8s.io/kubernetes\n\ngo 1.26.0\n\ngodebug default=go1.26\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n"+
		"\texample.com/x => example.com/y v1.0.0\n\tk8s.io/client-go => ./staging/src/k8s.io/client-go\n)\n", "v1.37.2")
	for _, want := range []string{"go 1.26.0\n", "godebug default=go1.26\n", "require k8s.io/kubernetes v1.37.2\n", "\tk8s.io/api => k8s.io/api v0.37.2\n",
		"\tk8s.io/client-go => k8s.io/client-go v0.37.2\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("found\n%s\nexpected %q in it", got, want)
		}
	}
	if strings.Contains(got, "example.com") || strings.Contains(got, "staging") {
		t.Errorf("found\n%s", got)
	}
}

// TestMissing: an empty cache lacks everything that a tier needs and nothing else, and another version's program is none.
func TestMissing(t *testing.T) {
	c := cache(t.TempDir())
	err := c.missing(tierChart)
	if err == nil || !strings.Contains(err.Error(), "helm "+helmVersion) || strings.Contains(err.Error(), "etcd") {
		t.Errorf("found %v", err)
	}
	for _, dir := range []string{"helm-v0.0.1-amd64", "helm-" + helmVersion} {
		if err := os.MkdirAll(filepath.Join(string(c), "bin", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"helm", "kubeconform", "helm-unittest"} {
		if err := c.missing(tierChart); err == nil || !strings.Contains(err.Error(), name+" ") {
			t.Errorf("found %v, expected that %s is missing", err, name)
		}
		if err := os.MkdirAll(filepath.Dir(c.program(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.program(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.missing(tierChart); err != nil {
		t.Errorf("found %v, expected that nothing is missing", err)
	}
	if err := c.missing(tierC); err == nil || !strings.Contains(err.Error(), "containerd") || !strings.Contains(err.Error(), "kubelet") {
		t.Errorf("found %v", err)
	}
}
