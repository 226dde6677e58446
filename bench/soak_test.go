//go:build linux

package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestSoak keeps the load up for a moment: too short to say whether anything grows, long enough for each part to have its turn.
func TestSoak(t *testing.T) {
	opt := quickOptions(t, "-soak", "15s")
	s, err := soakFor(t.Context(), opt, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range s.errs {
		t.Errorf("%d × %s", n, what)
	}
	for _, kind := range []string{
		"new tunnel", "request in a tunnel", "intercepted request, h1", "intercepted request, h2", "event", "config reload", "revocation", "restoration",
		"denied, domain_not_allowed", "denied, unauthenticated", "denied, revoked", "tunnel of the revoked caller", "stream cut by a revocation",
	} {
		if s.done[kind] == 0 {
			t.Errorf("there was no %s", kind)
		}
	}
	if text := s.report(opt); !strings.Contains(text, "Unexpected errors: 0.") || !strings.Contains(text, "| RSS, MiB |") {
		t.Error(text)
	}
}

func TestFlat(t *testing.T) {
	rising := func(per float64) (out []soakSample) {
		for i := range 60 {
			out = append(out, soakSample{at: time.Duration(i), rss: 20 << 20, heap: 5 << 20, files: 40, goroutines: 60 + per*float64(i)})
		}
		return out
	}
	for per, want := range map[float64]bool{0: true, 0.05: true, 1: false} {
		s := &soak{samples: rising(per)}
		if err := s.verdict(); (err == nil) != want {
			t.Errorf("%v goroutines more with each sample: %v", per, err)
		}
	}
	if (&soak{samples: rising(0)[:5]}).verdict() == nil {
		t.Error("five samples are enough")
	}
	bad := &soak{samples: rising(0), errs: map[string]int{"new tunnel: refused": 3}}
	if err := bad.verdict(); err == nil || !strings.Contains(err.Error(), "3 × new tunnel: refused") {
		t.Errorf("an unexpected error gave %v", err)
	}
}
