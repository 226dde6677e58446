package detect

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

// TestAllowlistWords: an allowlist says what package regexp says of its expressions, and the stopwords' bits lose none of them.
func TestAllowlistWords(t *testing.T) {
	rs := loaded()
	var f ruleFile
	if err := json.Unmarshal(ruleData, &f); err != nil {
		t.Fatal(err)
	}
	exprs := f.Allow
	for _, r := range f.Rules {
		for _, a := range r.Allow {
			exprs = append(exprs, a.Regexes...)
		}
	}
	var stops []*stopwords
	for _, r := range rs.rules {
		for i := range r.allow {
			if r.allow[i].stop != nil {
				stops = append(stops, r.allow[i].stop)
			}
		}
	}
	slow, quick := make([]*regexp.Regexp, len(exprs)), make([]func() *searches, len(exprs))
	for i, e := range exprs {
		slow[i], quick[i] = regexp.MustCompile(e), newSearches([]string{e})
	}
	var m pattern.Machine
	rnd := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"true", "FALSE", "null", "api", "key", "_", "id", "Token", "=\n", "a", "X", "EXAMPLE", ".", "endpoint", ":jar:", "public", "monkey", "${", "}", "hal+9ooo_da!sY"}
	matches := 0
	for range 3000 {
		var b strings.Builder
		for range 1 + rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		text := []byte(b.String())
		for i := range exprs {
			want := slow[i].Match(text)
			if want {
				matches++
			}
			if got := quick[i]().in(&m, text); got != want {
				t.Fatalf("%s in %q: %v", exprs[i], text, got)
			}
		}
	}
	if matches < 1000 || len(stops) == 0 {
		t.Errorf("%d matches, %d lists of stopwords", matches, len(stops))
	}
	for _, s := range stops {
		for _, words := range s.begin().words {
			for _, w := range words {
				if !s.in([]byte("0Q" + strings.ToUpper(w) + "1")) {
					t.Errorf("%q is not found", w)
				}
			}
		}
	}
}
