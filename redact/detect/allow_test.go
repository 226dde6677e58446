package detect

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

// TestAllowlistWords: what the words of an allowlist keep from being searched has no match, and the stopwords' bits lose none of them.
func TestAllowlistWords(t *testing.T) {
	rs := loaded()
	exprs := rs.allow()
	var stops []*stopwords
	for _, r := range rs.rules {
		for i := range r.allow {
			exprs = append(exprs[:len(exprs):len(exprs)], r.allow[i].exprs()...)
			if r.allow[i].stop != nil {
				stops = append(stops, r.allow[i].stop)
			}
		}
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
			want := exprs[i].slow().Match(text)
			if want {
				matches++
			}
			if got := exprs[i].in(&m, text); got != want {
				t.Fatalf("%s in %q: %v", exprs[i].slow(), text, got)
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
