package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedactRules: what a manifest says of redaction is what its tool's payloads are masked by.
func TestRedactRules(t *testing.T) {
	const body = `{"order":{"items":[{"name":"a lamp"}]},"note":"write to alice@example.com","card":"4111 1111 1111 1111"}`
	for said, masked := range map[string][]string{
		``:                                   {"4111"},
		`observability: {redactClasses: []}`: {},
		`observability: {redactClasses: [email]}`:                        {"alice@"},
		`observability: {redactFields: ["$.order.items[*].name", note]}`: {"a lamp", "alice@", "4111"},
	} {
		path := filepath.Join(t.TempDir(), "m.yaml")
		text := "name: t\nowner: o\nversion: \"1\"\ndescription: d\nrisk: low\ncapabilityClasses: [read_public]\nsideEffects: none\n" +
			"timeoutMs: 1000\negress: {allowedDomains: [api.example]}\n" + said + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tool, _, err := LoadManifest(path)
		if err != nil {
			t.Fatal(err)
		}
		got := tool.Scrubber.Body("application/json", []byte(body), true).Text
		for _, part := range []string{"a lamp", "alice@", "4111"} {
			want := true
			for _, m := range masked {
				want = want && m != part
			}
			if strings.Contains(got, part) != want {
				t.Errorf("%s: %q is shown: %v\n%s", said, part, !want, got)
			}
		}
	}
}
