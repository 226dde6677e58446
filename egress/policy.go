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
	for i := range p.allowed {
		p.allowedAt.add(p.allowed[i], i)
	}
	for i := range p.rules {
		p.rulesAt.add(p.rules[i].Host, i)
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
		for _, i := range w.found {
			r := &p.rules[i]
			if !r.names(t.Host, t.Port) {
				continue
			}
			named = true
			if r.decide(t, plain, &d) {
				return d
			}
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
		for _, i := range w.found {
			r := &p.rules[i]
			if len(r.Methods)+len(r.Paths) > 0 && r.names(host, port) && r.matchPort(port) {
				return true
			}
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
		for _, i := range w.found {
			if p.allowed[i].Match(host, port) {
				return &p.allowed[i]
			}
		}
	}
	return nil
}

// index finds patterns by their host, so that a decision costs one look-up a label however long the list is.
type index struct {
	exact, below map[string][]int // positions in the list of patterns
}

func (ix *index) add(p Pattern, i int) {
	m := &ix.exact
	if p.below {
		m = &ix.below
	}
	if *m == nil {
		*m = map[string][]int{}
	}
	(*m)[p.host] = append((*m)[p.host], i)
}

// walk visits the patterns that may cover host, the narrowest first.
func (ix *index) walk(host string) walk { return walk{index: ix, rest: host} }

type walk struct {
	index   *index
	rest    string // what is left of the host to look up
	started bool
	found   []int
}

func (w *walk) next() bool {
	if !w.started {
		w.started = true
		w.found = w.index.exact[w.rest]
		return true
	}
	var more bool
	if _, w.rest, more = strings.Cut(w.rest, "."); more {
		w.found = w.index.below[w.rest]
	}
	return more
}
