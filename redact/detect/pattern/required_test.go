package pattern

import (
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	for expr, want := range map[string]string{
		`(?i)^true|false|null$`:           "true false null",
		`.+EXAMPLE$`:                      "example",
		`s\.[A-Za-z]{24}`:                 "s.",
		`(?i)a(?:ccess|uthor)[_.-]?(id)+`: "ccess uthor",
		`(?:abc)?x*`:                      "",
		`abc|x*`:                          "",
		`(?:ab){2,}`:                      "ab",
		`(?:ab){0,2}`:                     "",
		`ké`:                              "",
	} {
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got := Required(re)
		slices.Sort(got)
		words := strings.Fields(want)
		slices.Sort(words)
		if !slices.Equal(got, words) {
			t.Errorf("%s: %q, want %q", expr, got, words)
		}
	}
}

// TestSearchAnchored: an expression that matches only at the beginning is tried there alone, however long the text is.
func TestSearchAnchored(t *testing.T) {
	for expr, want := range map[string]bool{`^a+$`: true, `^(?:a|b)`: true, `(^a)|^b`: true, `^a|b`: false, `(?m)^a`: false, `a*`: false, `(?:x^)*a`: false} {
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(re)
		if err != nil {
			t.Fatal(err)
		}
		if p.first != want {
			t.Errorf("%s: %v", expr, p.first)
		}
	}
}
