package egress

import (
	"slices"
	"strings"
)

// Verdict is the outcome of a gate; the zero value denies.
type Verdict uint8

// The verdicts.
const (
	Deny Verdict = iota
	Allow
)

// Code is a stable name for the reason of a denial. They are the codes of the product's denials.
type Code string

// The codes that this package gives.
const (
	CodeDomain  Code = "domain_not_allowed"
	CodeMethod  Code = "method_not_allowed"
	CodePath    Code = "path_not_allowed"
	CodePrivate Code = "private_network"
)

// Decision is what a Policy says of a Target. The zero value denies.
type Decision struct {
	Verdict Verdict
	Code    Code   // "" when allowed
	Rule    string // the entry that matched, as written in the manifest
	Path    string // the path pattern that matched, if any: a template safe to record
}

// Policy is a tool's allowlist and the rules that narrow it. It is immutable, and safe for concurrent use. Nil and the
// zero value deny everything.
type Policy struct {
	allowed   []Pattern
	rules     []Rule
	allowedAt index
	rulesAt   index
}

// NewPolicy returns the policy that allows what one of allowed covers, and where rules name the host, only what one of
// them covers as well. The caller must not change the slices inside rules afterwards.
func NewPolicy(allowed []Pattern, rules []Rule) *Policy {
	p := &Policy{allowed: slices.Clone(allowed), rules: slices.Clone(rules)}
	for i, entry := range slices.Backward(p.allowed) {
		p.allowedAt.add(entry, i)
	}
	for i, rule := range slices.Backward(p.rules) {
		p.rulesAt.add(rule.Host, i)
	}
	return p
}

// Allowed returns a copy of the allowlist.
func (p *Policy) Allowed() []Pattern {
	if p == nil {
		return nil
	}
	return slices.Clone(p.allowed)
}

// Rules returns a copy of the rules.
func (p *Policy) Rules() []Rule {
	if p == nil {
		return nil
	}
	return slices.Clone(p.rules)
}

// Decide judges t by name alone; it never resolves. A tunnel (no method) is judged by host and port only. Where rules
// name the host, at least one must match the port, and on a request the method and the path as well. An entry for the
// very host goes before a wildcard, and a longer wildcard before a shorter one.
func (p *Policy) Decide(t Target) Decision {
	entry := p.entry(t.Host, t.Port)
	if entry == nil {
		return Decision{Code: CodeDomain}
	}
	d := Decision{Code: CodeDomain, Rule: entry.text}
	named, plain := false, plainPath(t.Path)
	for w := p.rulesAt.walk(t.Host); w.next(); {
		r := &p.rules[w.found()]
		if !r.names(t.Host, t.Port) {
			continue
		}
		named = true
		if r.decide(t, plain, &d) {
			return d
		}
	}
	if !named {
		return Decision{Verdict: Allow, Rule: entry.text}
	}
	return d
}

// decide reports whether the rule allows t, and sets d to that or to the denial that is nearest to it.
func (r *Rule) decide(t Target, plain bool, d *Decision) bool {
	if !r.matchPort(t.Port) {
		return false
	}
	if t.Method == "" {
		*d = Decision{Verdict: Allow, Rule: r.Host.text}
		return true
	}
	if !r.matchMethod(t.Method) {
		if d.Code == CodeDomain {
			*d = Decision{Code: CodeMethod, Rule: r.Host.text}
		}
		return false
	}
	path, ok := r.matchPath(t.Path, plain)
	if !ok {
		*d = Decision{Code: CodePath, Rule: r.Host.text}
		return false
	}
	*d = Decision{Verdict: Allow, Rule: r.Host.text, Path: path}
	return true
}

// NeedsIntercept reports whether a rule restricts methods or paths for this host and port, so that a tunnel to it must
// be intercepted for the rule to be enforced.
func (p *Policy) NeedsIntercept(host string, port uint16) bool {
	if p == nil {
		return false
	}
	for w := p.rulesAt.walk(host); w.next(); {
		r := &p.rules[w.found()]
		if len(r.Methods)+len(r.Paths) > 0 && r.names(host, port) && r.matchPort(port) {
			return true
		}
	}
	return false
}

// entry returns the narrowest entry of the allowlist that covers host and port, or nil.
func (p *Policy) entry(host string, port uint16) *Pattern {
	if p == nil {
		return nil
	}
	for w := p.allowedAt.walk(host); w.next(); {
		if e := &p.allowed[w.found()]; e.Match(host, port) {
			return e
		}
	}
	return nil
}

// index finds patterns by their host, so that a decision costs one look-up a label however long the list is. Positions in the list of
// patterns are counted from 1; 0 is none. In a long list what costs is the memory that a look-up touches, so patterns of one host are
// chained through next and not listed each in a slice of its own.
type index struct {
	exact, below map[string]int32 // the first pattern of a host
	next         map[int32]int32  // the next one of the same host; few have any
}

// add puts p, which is at i, before those of its host that are there.
func (ix *index) add(p Pattern, i int) {
	m := &ix.exact
	if p.below {
		m = &ix.below
	}
	if *m == nil {
		*m = map[string]int32{}
	}
	at := int32(i) + 1
	if after := (*m)[p.host]; after != 0 {
		if ix.next == nil {
			ix.next = map[int32]int32{}
		}
		ix.next[at] = after
	}
	(*m)[p.host] = at
}

// walk visits the patterns that may cover host, the narrowest first, and those of one host in their order.
func (ix *index) walk(host string) walk { return walk{index: ix, rest: host} }

type walk struct {
	index   *index
	rest    string // what is left of the host to look up
	started bool
	at      int32
}

func (w *walk) next() bool {
	if w.at != 0 {
		w.at = w.index.next[w.at]
	}
	if !w.started {
		w.started = true
		w.at = w.index.exact[w.rest]
	}
	for more := true; w.at == 0; {
		if _, w.rest, more = strings.Cut(w.rest, "."); !more {
			return false
		}
		w.at = w.index.below[w.rest]
	}
	return true
}

// found is the position of the pattern that next has come to.
func (w *walk) found() int { return int(w.at) - 1 }
