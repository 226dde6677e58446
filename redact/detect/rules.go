package detect

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

//go:generate sh -c "cd gen && go run . ../gitleaks.json"

// ruleData is what the generator in gen wrote: the rules of github.com/zricethezav/gitleaks, with their version and licence.
//
//go:embed gitleaks.json
var ruleData []byte

// ruleFile is the form of ruleData.
type ruleFile struct {
	Source string
	Allow  []string
	Stop   []string
	Rules  []struct {
		ID       string
		Regex    string
		Group    int
		Entropy  float64
		Keywords []string
		Allow    []struct {
			Match   bool
			Regexes []string
			Hashes  []string
			Stop    []string
		}
	}
}

// replaced are rules that a detector of this package's own stands for, since it finds the whole and has no bound, or since the
// expression's time would grow with the square of a text that is made for it.
var replaced = map[string]bool{"jwt": true, "private-key": true, "curl-auth-header": true, "curl-auth-user": true, "kubernetes-secret-yaml": true}

// rule is one rule for vendor tokens. Its expressions are compiled when they are first needed.
type rule struct {
	id      string
	expr    string
	group   int // which to mask; wholeMatch or firstGroup
	entropy float64
	allow   []allowlist

	pattern func() *pattern.Pattern
	slow    func() *regexp.Regexp // for when the pattern gave up
}

// allowlist holds what is no secret although it looks like one.
type allowlist struct {
	match  bool // judge the match with its context, not the secret
	exprs  func() *searches
	hashes map[[32]byte]bool
	stop   *stopwords
}

// ruleset is what all Sets share.
type ruleset struct {
	source  string
	rules   []*rule
	words   []word // by the automaton's number
	auto    *automaton
	schemes []bool // for each state of auto with words: whether one is that of a scheme
	allow   func() *searches
	stop    *stopwords
}

// word is what the automaton looks for, and whom it tells.
type word struct {
	text  string
	rules []use
	hint  hint // for a detector of this package's own
}

// use is a rule that a word gives a hint of.
type use struct {
	rule        *rule
	least, most int  // how far before the word a match may begin
	forward     bool // instead: it may begin anywhere in the window behind the word
}

// loaded is built when the first Set is made: a process that redacts nothing does not pay for it.
var loaded = sync.OnceValue(load)

func load() *ruleset {
	var f ruleFile
	if err := json.Unmarshal(ruleData, &f); err != nil {
		panic("detect: rules: " + err.Error()) // a test reads the same bytes
	}
	rs := &ruleset{source: f.Source, allow: newSearches(f.Allow), stop: newStopwords(f.Stop)}
	index := map[string]int{}
	add := func(text string) *word {
		n, ok := index[text]
		if !ok {
			n = len(rs.words)
			index[text] = n
			rs.words = append(rs.words, word{text: text})
		}
		return &rs.words[n]
	}
	for _, in := range f.Rules {
		if replaced[in.ID] {
			continue
		}
		r := &rule{id: in.ID, expr: in.Regex, entropy: in.Entropy}
		re, err := syntax.Parse(in.Regex, syntax.Perl)
		if err != nil {
			panic(fmt.Sprintf("detect: rule %s: %v", in.ID, err))
		}
		r.secret(re, in.Group)
		for _, a := range in.Allow {
			r.allow = append(r.allow, newAllowlist(a.Match, a.Regexes, a.Hashes, a.Stop))
		}
		r.lazy()
		rs.rules = append(rs.rules, r)
		r.hints(pattern.Trim(re), in.Keywords, add)
	}
	for text, h := range hints {
		add(text).hint = h
	}
	texts := make([]string, len(rs.words))
	for i, w := range rs.words {
		texts[i] = w.text
	}
	rs.auto = newAutomaton(texts)
	for _, out := range rs.auto.outs[rs.auto.from:] {
		rs.schemes = append(rs.schemes, rs.scheme(out))
	}
	return rs
}

func newAllowlist(match bool, exprs, hashes, stop []string) allowlist {
	a := allowlist{match: match, exprs: newSearches(exprs), stop: newStopwords(stop), hashes: map[[32]byte]bool{}}
	for _, h := range hashes {
		b, err := hex.DecodeString(h)
		if err != nil || len(b) != sha256.Size {
			panic("detect: an allowlist has no hash " + h)
		}
		a.hashes[[32]byte(b)] = true
	}
	return a
}

func (r *rule) lazy() {
	expr := r.expr
	r.pattern = sync.OnceValue(func() *pattern.Pattern {
		re, err := syntax.Parse(expr, syntax.Perl)
		if err == nil {
			var p *pattern.Pattern
			if p, err = pattern.Compile(pattern.Trim(re)); err == nil {
				return p
			}
		}
		panic("detect: rule " + r.id + ": " + err.Error()) // a test compiles them all
	})
	r.slow = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// hints tells by which words of the text a match is found: those that it begins with, else a keyword at a known place in it, else
// a keyword somewhere before it.
func (r *rule) hints(re *syntax.Regexp, keywords []string, add func(string) *word) {
	if begins := pattern.Prefixes(re, 2); begins != nil {
		for _, w := range begins {
			u := add(w)
			u.rules = append(u.rules, use{rule: r})
		}
		return
	}
	for _, k := range keywords {
		u := add(k)
		if least, most, ok := pattern.Offset(re, k); ok && most < maxBack {
			u.rules = append(u.rules, use{rule: r, least: least, most: most})
			continue
		}
		u.rules = append(u.rules, use{rule: r, forward: true})
	}
}

// secret decides what to mask: the group of the expression that took part in the match. Where a group is a fragment, such as one of
// four parts of an identifier, all of the match is masked.
func (r *rule) secret(re *syntax.Regexp, group int) {
	caps := re.MaxCap()
	switch {
	case group > 0:
		r.group = group
	case caps == 0 || caps > pattern.MaxGroups || repeated(re, false):
		r.group = wholeMatch
	default:
		r.group = firstGroup
	}
}

// The values of rule.group that are no group's number.
const (
	wholeMatch = 0
	firstGroup = -1
)

// repeated reports whether a group stands inside a repeat.
func repeated(re *syntax.Regexp, inside bool) bool {
	switch re.Op {
	case syntax.OpCapture:
		if inside {
			return true
		}
	case syntax.OpRepeat, syntax.OpStar, syntax.OpPlus:
		inside = true
	}
	for _, sub := range re.Sub {
		if repeated(sub, inside) {
			return true
		}
	}
	return false
}
