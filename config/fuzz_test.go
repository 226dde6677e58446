package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/toolgate/toolgate/egress"
)

// seed adds the files of the corpus that load as the given kind.
func seed(f *testing.F, kind string) {
	for _, dir := range []string{"testdata/good", "testdata/bad"} {
		for _, path := range corpusFiles(f, dir) {
			if schemaFor(path) != kind {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	for _, s := range []string{"", "{", "- - -", "a: &a [*a]", "<<: {}", "? [", "\x00", "a: |\n", "!!binary x", "%TAG ! x\n---\n", "'", "{a: {b: {c: []}}}"} {
		f.Add([]byte(s))
	}
}

// fuzzed writes b where a file of the corpus would stand.
func fuzzed(t *testing.T, dir string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, "good", "fuzzed.yaml")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkError: an error is always a list of positioned problems.
func checkError(t *testing.T, err error) {
	t.Helper()
	problems, ok := errors.AsType[Problems](err)
	if !ok || len(problems) == 0 {
		t.Fatalf("error %T %v", err, err)
	}
	for _, p := range problems {
		if p.File == "" || p.Line < 1 || p.Col < 1 || p.Message == "" {
			t.Errorf("problem %+v", p)
		}
	}
}

func checkTool(t *testing.T, tool *Tool) {
	t.Helper()
	if tool.Name == "" || tool.Version == "" || tool.Risk == "" || tool.SideEffects == "" || tool.Timeout <= 0 || tool.Policy == nil || tool.Scrubber == nil {
		t.Errorf("incomplete tool %+v", tool)
	}
	if tool.Policy.Decide(egress.Target{Host: "never-named.invalid", Port: 1}).Verdict == egress.Allow {
		t.Errorf("the policy of %s allows what it cannot name", tool.Name)
	}
}

func FuzzConfig(f *testing.F) {
	seed(f, "sidecar")
	dir := corpus(f)
	revision := regexp.MustCompile(`^[0-9a-f]{12}$`)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Load(fuzzed(t, dir, b))
		if err != nil {
			if s != nil {
				t.Error("a snapshot beside an error")
			}
			checkError(t, err)
			return
		}
		l := s.Limits
		if l.MaxTunnels <= 0 || l.MaxHeaderBytes <= 0 || l.HeaderTimeout <= 0 || l.DialTimeout <= 0 || l.IdleTimeout <= 0 || l.Drain <= 0 {
			t.Errorf("limits %+v", l)
		}
		if !revision.MatchString(s.Revision) || s.Mode != Enforce && s.Mode != Report || s.KillSwitch.MaxStale <= 0 || s.Audit.Output == "" {
			t.Errorf("snapshot %+v", s)
		}
		if len(s.Listeners) == 0 || len(s.Tools) == 0 || s.Identity.Required && len(s.Identity.Issuers) == 0 {
			t.Errorf("snapshot %+v", s)
		}
		for _, listener := range s.Listeners {
			for _, name := range append(listener.Tools, listener.Tool) {
				if name != "" && s.Tools[name] == nil {
					t.Errorf("listener of an unknown tool %q", name)
				}
			}
		}
		for _, bd := range s.Bindings {
			if bd.Kind() == "" || len(bd.Tools) == 0 || len(bd.Targets) == 0 {
				t.Errorf("binding %+v", bd)
			}
		}
		for _, tool := range s.Tools {
			checkTool(t, tool)
		}
	})
}

func FuzzManifest(f *testing.F) {
	seed(f, "manifest")
	dir := corpus(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		tool, _, err := LoadManifest(fuzzed(t, dir, b))
		if err != nil {
			checkError(t, err)
			return
		}
		checkTool(t, tool)
	})
}

func FuzzRevocations(f *testing.F) {
	seed(f, "revocations")
	dir := corpus(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := LoadRevocations(fuzzed(t, dir, b))
		if err != nil {
			checkError(t, err)
			return
		}
		ids := map[string]bool{}
		for _, r := range set {
			if r.ID == "" || ids[r.ID] || r.Reason == "" || r.By == "" || r.At.IsZero() || r.Selector.Validate() != nil {
				t.Errorf("revocation %+v", r)
			}
			ids[r.ID] = true
		}
	})
}
