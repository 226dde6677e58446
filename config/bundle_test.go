package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// variable is the environment variable of these tests.
const variable = "TOOLGATE_TEST_CONFIG"

// bundled is a config with two manifests behind it, as an injector writes it.
const bundled = `apiVersion: toolgate/v1
kind: Sidecar
listeners: [{name: tool, address: "127.0.0.1:15001", tool: search, tokenFile: "%[1]s/keys/token"}]
identity: {issuers: [{issuer: "https://idp.example", audiences: [toolgate], caFile: "%[1]s/keys/ca.pem"}]}
killSwitch: {file: "%[1]s/revocations.yaml"}
---
name: search
version: "1"
description: Searches.
owner: web
risk: low
capabilityClasses: [read_public]
sideEffects: none
timeoutMs: 1000
egress: {allowedDomains: [search.example]}
---
name: mail
version: "2"
`

func loadVariable(t testing.TB, text string) (*Snapshot, error) {
	t.Helper()
	t.Setenv(variable, text)
	return Load(environment + variable)
}

func TestBundleFromTheEnvironment(t *testing.T) {
	dir := corpus(t)
	s, err := loadVariable(t, fmt.Sprintf(bundled, dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tools) != 2 || s.Tools["search"].Version != "1" || s.Tools["mail"].Risk != "high" {
		t.Errorf("tools %+v", s.Tools)
	}
	if s.Listeners[0].TokenFile != filepath.Join(dir, "keys/token") || s.KillSwitch.File != filepath.Join(dir, "revocations.yaml") {
		t.Errorf("files %+v %+v", s.Listeners[0], s.KillSwitch)
	}
	// What files there are is watched; the variable, which cannot change, is not among them.
	equal(t, "files", s.Files, []string{filepath.Join(dir, "keys/ca.pem")})
	for _, p := range s.Defaults {
		if p.File != variable {
			t.Errorf("warning of %q, expected the variable's name: %s", p.File, p)
		}
	}
	if !slices.ContainsFunc(s.Defaults, func(p Problem) bool { return p.Line == 17 && strings.Contains(p.Message, "risk is missing") }) {
		t.Errorf("no warning about the second manifest: %v", s.Defaults)
	}
}

func TestBundleRevision(t *testing.T) {
	dir := corpus(t)
	text := fmt.Sprintf(bundled, dir)
	revision := func(text string) string {
		t.Helper()
		s, err := loadVariable(t, text)
		if err != nil {
			t.Fatal(err)
		}
		return s.Revision
	}
	first := revision(text)
	if revision(text) != first {
		t.Error("the same text has two revisions")
	}
	if revision(strings.Replace(text, "search.example", "other.example", 1)) == first {
		t.Error("another manifest has the same revision")
	}
	if err := os.Rename(filepath.Join(dir, "keys/other.pem"), filepath.Join(dir, "keys/ca.pem")); err != nil {
		t.Fatal(err)
	}
	if revision(text) == first {
		t.Error("another CA file has the same revision")
	}
}

func TestBundleInAFile(t *testing.T) {
	dir := corpus(t)
	path := filepath.Join(dir, "bundle.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A file has a folder: relative names start there, and a manifest's input schema is found.
	write(fmt.Sprintf(bundled, ".") + "inputSchemaRef: manifests/schemas/refund-draft-input.json\n")
	s := mustLoad(t, path)
	if len(s.Tools) != 2 || len(s.Tools["mail"].InputFields) == 0 {
		t.Errorf("tools %+v", s.Tools)
	}
	equal(t, "files", s.Files, []string{path, filepath.Join(dir, "manifests/schemas/refund-draft-input.json"), filepath.Join(dir, "keys/ca.pem")})
	// One document is no bundle, though a marker stands before it.
	b, err := os.ReadFile(filepath.Join(dir, "good/minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "good/marked.yaml")
	write("---\n" + string(b) + "---\n# the end\n")
	mustLoad(t, path)
}

func TestBundleMistakes(t *testing.T) {
	dir := corpus(t)
	good := fmt.Sprintf(bundled, dir)
	config, manifests, _ := strings.Cut(good, "---\n")
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"empty", " \n", []string{`env:TOOLGATE_TEST_CONFIG:1:1: found the environment variable "TOOLGATE_TEST_CONFIG" empty`}},
		{"comments", "---\n# none\n---\n", []string{"TOOLGATE_TEST_CONFIG:1:1: found an empty file"}},
		{"no manifest", config, []string{"TOOLGATE_TEST_CONFIG:1:1: found no manifest behind the config"}},
		{"manifests", config + "manifests: [/etc/toolgate/*.yaml]\n---\n" + manifests, []string{"TOOLGATE_TEST_CONFIG:6:12: found manifests, expected none"}},
		{"manifests alone", config + "manifests: [/etc/toolgate/*.yaml]\n", []string{":6:12: found manifests, expected none", ":1:1: found no manifest"}},
		{"relative", strings.ReplaceAll(good, dir+"/", ""), []string{
			`:3:79: found the relative name "keys/token", expected an absolute one: a config from the environment has no folder`,
			`:4:85: found the relative name "keys/ca.pem"`, `:5:20: found the relative name "revocations.yaml"`,
		}},
		{"later document", good + "---\nname: third\nversion: \"3\"\nrisk: none\n", []string{`:22:7: found string "none", expected one of`}},
		{"directive", "%YAML 1.2\n---\n" + good, []string{":1:1: found a % directive"}},
		{"unknown tool", strings.Replace(good, "tool: search,", "tool: absent,", 1), []string{`:3:60: found tool "absent", which no manifest describes, expected one of mail, search`}},
		{"later syntax", good + "---\nname: [third\n", []string{":20:"}},
		{"second config", config + "---\n" + good, []string{":7:1: found unknown key \"apiVersion\""}},
		{"crlf", strings.ReplaceAll(good, "\n", "\r\n") + "---\r\nname: third\r\nrisk: none\r\n", []string{":20:1: found no key \"version\"", ":21:7: found string \"none\""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadVariable(t, tt.text)
			problems, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("error %T %v", err, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(problems.Error(), want) {
					t.Errorf("no %q in\n%v", want, problems)
				}
			}
		})
	}
	for name, want := range map[string]string{
		"env:TOOLGATE_TEST_NOT_SET": `found no environment variable "TOOLGATE_TEST_NOT_SET"`,
		"env:":                      "found no name after env:",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A scalar cannot hide a marker, and what looks like one and is none does not cut.
func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"a: 1", []string{"a: 1"}},
		{"a: 1\n---\nb: 2", []string{"a: 1\n", "\n\nb: 2"}},
		{"a: |\n  x\n---\nb: 2", []string{"a: |\n  x\n", "\n\n\nb: 2"}},
		{"a: \"x\n---\ny\"", []string{"a: \"x\n", "\n\ny\""}},
		{"a: |\n  ---\n  x", []string{"a: |\n  ---\n  x"}},
		{"---a: 1\n----\n ---\n", []string{"---a: 1\n----\n ---\n"}},
		{"---\ta: 1\n---\r\n--- b", []string{"---\ta: 1\n", "\n\n--- b"}},
		{"---\n# c\n\n---\na: 1\n---", []string{"\n\n\n\na: 1\n"}},
	} {
		var got []string
		for _, d := range split("f", tt.text) {
			got = append(got, d.text)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// FuzzBundle: the documents together are the text but for markers, blanks and comments, each at its line; none can be cut again;
// a position lies in the text; and a bundle accepted has every tool at hand.
func FuzzBundle(f *testing.F) {
	dir := corpus(f)
	good := fmt.Sprintf(bundled, dir)
	for _, s := range []string{good, strings.ReplaceAll(good, "\n", "\r\n"), "---\n" + good + "---\n", "a: \"x\n---\ny\"", "--- {a: 1}\n--- |\n x\n...\n---", "a\r---\rb", "a\r#00\r0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := slices.Collect(strings.Lines(text))
		for _, d := range split("f", text) {
			for i, l := range slices.Collect(strings.Lines(d.text)) {
				if l == "\n" || bare(l) {
					continue
				}
				if i >= len(lines) || lines[i] != l || i+1 < d.at.line {
					t.Fatalf("line %d of %q is %q, which stands elsewhere in %q", i+1, d.text, l, text)
				}
			}
			if again := split("f", d.text); len(again) != 1 || again[0].text != d.text && !strings.HasPrefix(lines[d.at.line-1], "--- ") {
				t.Fatalf("%q is cut again: %v", d.text, again)
			}
		}
		if strings.Contains(text, "\x00") {
			return // no environment can hold it
		}
		s, err := loadVariable(t, text)
		if err == nil {
			if len(s.Tools) == 0 {
				t.Error("accepted without a tool")
			}
			return
		}
		checkError(t, err)
		problems, _ := errors.AsType[Problems](err)
		for _, p := range problems {
			if p.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 { // the parser takes a lone \r for a line's end
				t.Errorf("%s is behind the end of %q", p, text)
			}
		}
	})
}
