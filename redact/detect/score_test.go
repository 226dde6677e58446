package detect

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/corpustest"
)

// score is how one class came out.
type score struct {
	class             string
	secrets, found    int
	keeps, touched    int
	missed, disturbed []string
}

func (s *score) recall() float64 { return float64(s.found) / float64(s.secrets) }

// TestScore holds the detectors to their numbers.
func TestScore(t *testing.T) {
	set := allOf(t)
	scores := map[string]*score{}
	for _, c := range corpustest.Load(t, "../..") {
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
			if !corpustest.Leaks(secret, out) {
				s.found++
			} else {
				s.missed = append(s.missed, c.Text+" => "+out)
			}
		}
	}
	report(t, scores)
}

func report(t *testing.T, scores map[string]*score) {
	all := slices.SortedFunc(maps.Values(scores), func(a, b *score) int { return cmp.Compare(a.class, b.class) })
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
