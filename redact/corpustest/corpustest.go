// Package corpustest reads the texts that redaction is scored by, and says when a secret leaks.
//
// Limits: the texts look like live keys, so they stay outside of the repository, and a test that finds none is skipped.
//
// It is a leaf. Tests of redact and redact/detect alone may import it.
package corpustest

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Case is a text of one class. Expected is "keep" where nothing in it may be masked; otherwise Secrets are what must not be read on.
type Case struct {
	ID, Class, Text, Expected string
	Secrets                   []string
}

// Load returns the 1,227 cases of gitleaks' rules and of Presidio's recognizers, which nobody of this project wrote. root is the path of
// the module's root from the test's folder.
func Load(t testing.TB, root string) []Case {
	t.Helper()
	f, err := os.Open(cmp.Or(os.Getenv("TOOLGATE_REDACTION_CORPUS"), filepath.Join(root, "../shared/redaction/corpus.jsonl.gz")))
	if err != nil {
		t.Skip("NOT SCORED: there is no corpus; set TOOLGATE_REDACTION_CORPUS to corpus.jsonl.gz")
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []Case
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c Case
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	if lines.Err() != nil || len(out) < 1000 {
		t.Fatalf("%d cases, %v", len(out), lines.Err())
	}
	return out
}

// Leaks reports whether half of the secret, but no less than eight bytes, or all of a shorter one, can be read in what is shown.
func Leaks(secret, shown string) bool {
	n := Common(secret, shown)
	return n >= max(8, (len(secret)+1)/2) || n == len(secret)
}

// Common returns the length in bytes of the longest string that is in both.
func Common(a, b string) int {
	best := 0
	for i := range len(a) {
		for best < len(a)-i && strings.Contains(b, a[i:i+best+1]) {
			best++
		}
	}
	return best
}
