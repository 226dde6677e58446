package detect

import (
	"crypto/sha256"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

// allowed reports whether the rules say that this is no secret. match is the secret with its context.
func (rs *ruleset) allowed(m *pattern.Machine, r *rule, match, secret []byte) bool {
	if rs.stop.in(secret) || rs.allow().in(m, secret) {
		return true
	}
	for i := range r.allow {
		a := &r.allow[i]
		target := secret
		if a.match {
			target = match
		}
		if a.stop.in(secret) || len(a.hashes) > 0 && a.hashes[sha256.Sum256(secret)] || a.exprs().in(m, target) {
			return true
		}
	}
	return false
}

// searches are expressions of which any is looked for in what a rule matched, each of their alternatives for itself: where a word stands
// with which it begins, or which it has in it, or at the beginning of the text, if it matches nowhere else.
type searches struct {
	begins []*search // tried at the beginning
	always []*search // searched for from everywhere
	auto   *automaton
	words  []told // by the automaton's number
}

// search is an expression, or one of its alternatives.
type search struct {
	pattern *pattern.Pattern
	slow    func() *regexp.Regexp // for when the pattern gave up
}

// told are the searches that a word is told of.
type told struct {
	length int
	begin  []*search // to be matched where the word begins
	within []*search // to be searched for
}

func (s *search) is(result pattern.Result, text []byte) bool {
	return result == pattern.Yes || result == pattern.GaveUp && s.slow().Match(text)
}

func (s *searches) in(m *pattern.Machine, text []byte) bool {
	for _, p := range s.begins {
		if p.pattern.MayBegin(text, 0) && p.is(p.pattern.Match(m, text, 0), text) {
			return true
		}
	}
	for _, p := range s.always {
		if p.is(p.pattern.Search(m, text), text) {
			return true
		}
	}
	if s.auto == nil {
		return false
	}
	for at, state := 0, uint16(0); at < len(text); {
		end, out := s.auto.scan(text, at, &state)
		for ; out != 0; out = s.auto.out[out].next {
			w := &s.words[s.auto.out[out].word]
			for _, p := range w.begin {
				if p.is(p.pattern.Match(m, text, end-w.length), text) {
					return true
				}
			}
			for _, p := range w.within {
				if p.is(p.pattern.Search(m, text), text) {
					return true
				}
			}
		}
		at = end
	}
	return false
}

func newSearches(exprs []string) func() *searches {
	return sync.OnceValue(func() *searches {
		s := &searches{}
		index := map[string]int{}
		var texts []string
		add := func(text string) *told {
			n, ok := index[text]
			if !ok {
				n = len(texts)
				index[text] = n
				texts = append(texts, text)
				s.words = append(s.words, told{length: len(text)})
			}
			return &s.words[n]
		}
		for _, e := range exprs {
			re, err := syntax.Parse(e, syntax.Perl)
			if err != nil {
				panic("detect: allowlist " + e + ": " + err.Error()) // a test compiles them all
			}
			alternatives := []*syntax.Regexp{re}
			if re.Op == syntax.OpAlternate {
				alternatives = re.Sub
			}
			slow := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(e) })
			for _, re := range alternatives {
				s.add(re, slow, add)
			}
		}
		if len(texts) > 0 {
			s.auto = newAutomaton(texts)
		}
		return s
	})
}

// add decides how to look for an expression.
func (s *searches) add(re *syntax.Regexp, slow func() *regexp.Regexp, word func(string) *told) {
	compiled, err := pattern.Compile(re)
	if err != nil {
		panic("detect: allowlist " + re.String() + ": " + err.Error())
	}
	p := &search{compiled, slow}
	if compiled.First() {
		s.begins = append(s.begins, p)
		return
	}
	if words := pattern.Prefixes(re, 2); words != nil {
		for _, w := range words {
			t := word(w)
			t.begin = append(t.begin, p)
		}
		return
	}
	words := pattern.Required(re)
	for _, w := range words {
		t := word(w)
		t.within = append(t.within, p)
	}
	if len(words) == 0 {
		s.always = append(s.always, p)
	}
}
