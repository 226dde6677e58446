//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGroups: what is made is removed, with what kubelet made in it, and neighbours stay.
func TestGroups(t *testing.T) {
	all, err := hierarchies()
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("NOT TESTED: control groups need root: %v", err)
	}
	m, other := cache(t.TempDir()).machine("grouptest"), cache(t.TempDir()).machine("grouptest2")
	for _, n := range []*machine{m, other} {
		if err := n.makeGroups(); err != nil {
			t.Skipf("NOT TESTED: this machine allows no control groups: %v", err)
		}
		t.Cleanup(func() { _ = n.removeGroups() })
	}
	below := filepath.Join(all[0], m.group(), "kubepods", "pod1")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.removeGroups(); err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if _, err := os.Stat(filepath.Join(h, m.group())); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Join(h, m.group()), err)
		}
		if _, err := os.Stat(filepath.Join(h, other.group())); err != nil {
			t.Errorf("the neighbour has gone: %v", err)
		}
	}
}
