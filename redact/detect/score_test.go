package detect

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// corpus is 1,227 texts that nobody of this project wrote: the cases of gitleaks' rules and of Presidio's recognizers. They look like
// live keys, so they stay outside of the repository.
func corpus(t *testing.T) []corpusCase {
	t.Helper()
	name := cmp.Or(os.Getenv("TOOLGATE_REDACTION_CORPUS"), "../../../shared/redaction/corpus.jsonl.gz")
	f, err := os.Open(name)
	if err != nil {
		t.Skip("NOT SCORED: there is no corpus; set TOOLGATE_REDACTION_CORPUS to corpus.jsonl.gz")
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []corpusCase
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c corpusCase
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

type corpusCase struct {
	ID, Class, Text, Expected string
	Secrets                   []string
}

// score is how one class came out.
type score struct {
	class             string
	secrets, found    int
	keeps, touched    int
	missed, disturbed []string
}

func (s *score) recall() float64 { return float64(s.found) / float64(s.secrets) }

// TestScore holds the detectors to their numbers. A secret leaks if half of it, but no less than eight bytes, can be read on.
func TestScore(t *testing.T) {
	set := allOf(t)
	scores := map[string]*score{}
	for _, c := range corpus(t) {
		s := scores[c.Class]
		if s == nil {
			s = &score{class: c.Class}
			scores[c.Class] = s
		}
		out := maskAll(set, c.Text, "")
		if c.Expected == "keep" {
			s.keeps++
			if out != c.Text {
				s.touched++
				s.disturbed = append(s.disturbed, c.Text+" => "+out)
			}
			continue
		}
		for _, secret := range c.Secrets {
			s.secrets++
			if common := common(secret, out); common < max(8, (len(secret)+1)/2) && common < len(secret) {
				s.found++
			} else {
				s.missed = append(s.missed, c.Text+" => "+out)
			}
		}
	}
	report(t, scores)
}

func report(t *testing.T, scores map[string]*score) {
	all := slices.SortedFunc(mapValues(scores), func(a, b *score) int { return cmp.Compare(a.class, b.class) })
	var table bytes.Buffer
	var sum float64
	var classes, keeps, touched int
	for _, s := range all {
		keeps, touched = keeps+s.keeps, touched+s.touched
		recall := "-"
		if s.secrets > 0 {
			classes++
			sum += s.recall()
			recall = fmt.Sprintf("%.2f", s.recall())
		}
		fmt.Fprintf(&table, "%-44s recall %4s of %3d, touched %2d of %2d\n", s.class, recall, s.secrets, s.touched, s.keeps)
		if os.Getenv("TOOLGATE_REDACTION_CASES") != "" {
			for _, m := range append(s.missed, s.disturbed...) {
				fmt.Fprintf(&table, "    %.300q\n", m)
			}
		}
	}
	macro, over := sum/float64(classes), float64(touched)/float64(keeps)
	summary := fmt.Sprintf("macro recall %.4f over %d classes, %d of %d keeps touched (%.1f %%)", macro, classes, touched, keeps, 100*over)
	if macro < 0.97 || over > 0.03 {
		t.Errorf("%s\n%s", &table, summary)
	} else if testing.Verbose() {
		t.Logf("\n%s", &table)
	}
	t.Log(summary)
}

func mapValues(m map[string]*score) func(func(*score) bool) {
	return func(yield func(*score) bool) {
		for _, s := range m {
			if !yield(s) {
				return
			}
		}
	}
}

// common returns the length of the longest string that is in both.
func common(a, b string) int {
	best := 0
	for i := range len(a) {
		for best < len(a)-i && strings.Contains(b, a[i:i+best+1]) {
			best++
		}
	}
	return best
}

func allOf(t testing.TB) *Set {
	t.Helper()
	s, err := New(Options{PII: PII})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// maskAll is the simplest use of spans.
func maskAll(s *Set, text, name string) string {
	var out strings.Builder
	at := 0
	for _, p := range s.Scan(nil, []byte(text), name) {
		out.WriteString(text[at:p.Start])
		out.WriteString("[REDACTED:" + p.Class + "]")
		at = p.End
	}
	return out.String() + text[at:]
}
