package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRawFiles: what cannot be a text file with comments in testdata.
func TestRawFiles(t *testing.T) {
	const manifest = "name: t\nversion: \"1\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "1:1: found an empty file, expected a mapping"},
		{"blank", "\n\n  \n", "1:1: found an empty file"},
		{"comment only", "# nothing\n", "1:1: found an empty file"},
		{"document start only", "---\n", "1:1: found an empty file"},
		{"null", "null\n", "1:1: found an empty file"},
		{"empty second document", manifest + "---\n", "3:1: found a second document"},
		{"not UTF-8", "name: t\nowner: \"é\xff\"\n", "2:10: found byte 0xff, expected UTF-8 text"},
		{"UTF-16", "\xff\xfen\x00a\x00", "1:1: found byte 0xff"},
		{"control character", "name: \"t\x00\"\n", "1:9: found control character U+0000"},
		{"line separator", "owner: \"a\u2028b\"\n", "1:10: found control character U+2028"},
		{"escape sequence", "owner: \x1b[31mred\n", "1:8: found control character U+001B"},
		{"too large", manifest + strings.Repeat("#", maxFileBytes), "1:1: found no readable file, expected one: the file is larger than 1 MiB"},
		{"deep list", "owner: " + strings.Repeat("[", 100_000), "1:71: found nesting deeper than 64 levels"},
		{"deep compact list", strings.Repeat("- ", 100_000), "found nesting deeper than 64 levels"},
		{"deep mapping", deepMapping(200), "found nesting deeper than 64 levels"},
		{"deep keys", strings.Repeat("? ", 100_000), "found nesting deeper than 64 levels"},
		{"many keys", manyKeys(1500), "found a mapping of more than 1000 keys"},
		{"many keys below", "egress:\n  x:\n" + strings.ReplaceAll("    "+manyKeys(1500), "\n", "\n    "), "found a mapping of more than 1000 keys"},
		{"many tokens", "owner: [" + strings.Repeat("1,", maxTokens), "tokens, expected at most 250000"},
		{"tabs", "egress:\n\tallowedDomains: []\n", "2:1: found a tab, expected spaces"},
		{"JSON with another value behind", `{"name": "t"} {"name": "u"}`, "1:15: found broken syntax"},
		{"JSON duplicate key below", `{"name": "t", "egress": {"allowedDomains": [], "allowedDomains": ["a.example"]}}`, `1:48: found key "allowedDomains" a second time`},
		{"JSON key spelled with an escape", `{"name": "t", "n\u0061me": "u"}`, `1:15: found key "name" a second time`},
		{"key quoted and plain", "name: t\n\"name\": u\n", `2:1: found key "name" a second time`},
		{"long value", "name: " + strings.Repeat("x", 5000) + "\n", `…"`},
		{"anchor on the whole", "&a\nname: t\n", "found an anchor"},
		{"local tag on a mapping", "egress: !x {allowedDomains: []}\n", "found the tag"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := LoadManifest(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
			if err != nil && len(err.Error()) > 5000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

// TestMistakesAreBounded: a flow mapping may hold many wrong keys, of which not every one is told.
func TestMistakesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.yaml")
	text := "{" + strings.TrimSuffix(strings.ReplaceAll(manyKeys(20_000), "\n", ", "), ", ") + "}"
	put(t, path, text)
	_, _, err := LoadManifest(path)
	problems, _ := errors.AsType[Problems](err)
	if len(problems) != maxMistakes+1 || !strings.Contains(err.Error(), "the rest is not shown") {
		t.Errorf("%d problems", len(problems))
	}
}

// TestLargeRevocations: the bounds leave room for what a response team writes.
func TestLargeRevocations(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: toolgate/v1\nkind: Revocations\nrevocations:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "  - id: r%d\n    selector: {tool: [a, b], tenant: acme}\n    reason: leaked key\n    by: me@example.com\n    at: 2026-11-29T17:10:00Z\n", i)
	}
	path := filepath.Join(t.TempDir(), "r.yaml")
	put(t, path, b.String())
	if set, err := LoadRevocations(path); err != nil || len(set) != 3000 {
		t.Errorf("%d entries, %v", len(set), err)
	}
}

func deepMapping(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func TestAcceptedSpellings(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark":  "\ufeffname: t\nversion: \"1\"\n",
		"CRLF":             "name: t\r\nversion: \"1\"\r\n",
		"no final newline": "name: t\nversion: '1'",
		"block scalars":    "name: t\nversion: \"1\"\ndescription: |\n  two\n  lines\nowner: >-\n  folded\n  text\n",
		"document markers": "---\nname: t\nversion: \"1\"\n...\n",
		"JSON with tabs":   "{\n\t\"name\":\t\"t\",\n\t\"version\": \"1\", \"description\": \"a \\\"\\t\\\" b\"}",
	} {
		path := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tool, _, err := LoadManifest(path)
		if err != nil || tool.Name != "t" || tool.Version != "1" {
			t.Errorf("%s: %+v, %v", name, tool, err)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing.yaml"), dir, pipe} {
		_, err := Load(path)
		_, _, err2 := LoadManifest(path)
		_, err3 := LoadRevocations(path)
		for _, err := range []error{err, err2, err3} {
			problems, ok := errors.AsType[Problems](err)
			if !ok || len(problems) != 1 || problems[0].File != path || problems[0].Line != 1 || problems[0].Col != 1 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestProblemText(t *testing.T) {
	p := Problems{{"a.yaml", 3, 7, "found x, expected y"}, {"b.yaml", 1, 1, "z"}}
	if got, want := p.Error(), "a.yaml:3:7: found x, expected y\nb.yaml:1:1: z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMessagesUseTheGivenName: a relative name stays relative, for manifests as well.
func TestMessagesUseTheGivenName(t *testing.T) {
	t.Chdir(corpus(t))
	_, err := Load("bad/manifests-broken.yaml")
	if err == nil || !strings.HasPrefix(err.Error(), "more/broken.yaml:5:7: ") {
		t.Errorf("got %v", err)
	}
	t.Chdir("bad")
	_, err = Load("manifests-broken.yaml")
	if err == nil || !strings.HasPrefix(err.Error(), "../more/broken.yaml:5:7: ") {
		t.Errorf("got %v", err)
	}
}

// TestErrorsHoldNoSecrets: what the files named hold is never part of a message.
func TestErrorsHoldNoSecrets(t *testing.T) {
	dir := corpus(t)
	for _, path := range corpusFiles(t, filepath.Join(dir, "bad")) {
		if _, err := load(path); err != nil && (strings.Contains(err.Error(), "a-secret") || strings.Contains(err.Error(), "a-token") || strings.Contains(err.Error(), "user:pass") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestClosest(t *testing.T) {
	values := []string{"allowedDomains", "timeoutMs", "risk"}
	for s, want := range map[string]string{
		"allowDomains": "allowedDomains", "allowed_domains": "allowedDomains", "timeoutms": "timeoutMs", "rsik": "risk",
		"x": "", "": "", "observability": "",
	} {
		if got := closest(s, values); got != want {
			t.Errorf("closest(%q) = %q, want %q", s, got, want)
		}
	}
}
