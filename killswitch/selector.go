package killswitch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Selector says which calls a revocation covers: within a field one of the values, across fields all that are given.
// A selector with no field covers nothing unless All is set, and All excludes every other field. Values match exactly;
// only hosts are compared without regard to case.
type Selector struct {
	Tool, Version, Tenant, Subject, Agent, Task, Run, CapabilityClass, Risk, Host []string
	All                                                                           bool
}

// Covers reports whether the selector matches s. Host values may be "*.x" (labels below x). A selector that Validate
// refuses covers nothing.
func (s Selector) Covers(sc Scope) bool {
	if s.Validate() != nil {
		return false
	}
	s.Host = canonicalHosts(s.Host)
	sc.Host = canonicalHost(sc.Host)
	return s.covers(&sc)
}

// covers is Covers for a valid selector and a scope whose hosts are canonical.
func (s *Selector) covers(sc *Scope) bool {
	return s.All || oneOf(s.Tool, sc.Tool) && oneOf(s.Tenant, sc.Tenant) && oneOf(s.Subject, sc.Subject) &&
		oneOf(s.Agent, sc.Agent) && oneOf(s.Task, sc.Task) && oneOf(s.Run, sc.Run) &&
		oneOf(s.Version, sc.Version) && oneOf(s.Risk, sc.Risk) &&
		anyOf(s.CapabilityClass, sc.CapabilityClasses) && hostOf(s.Host, sc.Host)
}

// oneOf holds for a field that the selector does not name. Values are never empty, so an empty have never matches.
func oneOf(want []string, have string) bool { return len(want) == 0 || slices.Contains(want, have) }

func anyOf(want, have []string) bool {
	if len(want) == 0 {
		return true
	}
	for _, h := range have {
		if slices.Contains(want, h) {
			return true
		}
	}
	return false
}

func hostOf(want []string, have string) bool {
	if len(want) == 0 {
		return true
	}
	for _, w := range want {
		if w == have {
			return true
		}
		// "*.x" covers any name that ends in ".x" and has a label before it.
		if w[0] == '*' && len(have) > len(w)-1 && strings.HasSuffix(have, w[1:]) {
			return true
		}
	}
	return false
}

// fields lists the selector's fields in a fixed order, with the names they have in a file.
func (s *Selector) fields() [10]field {
	return [...]field{
		{"tool", s.Tool}, {"version", s.Version}, {"tenant", s.Tenant}, {"subject", s.Subject}, {"agent", s.Agent},
		{"task", s.Task}, {"run", s.Run}, {"capabilityClass", s.CapabilityClass}, {"risk", s.Risk}, {"host", s.Host},
	}
}

type field struct {
	name   string
	values []string
}

// Validate returns an error that says what is wrong: empty without All, All with others, an empty value, an unknown
// risk, a host that no canonical host could equal.
func (s Selector) Validate() error {
	given := 0
	for _, f := range s.fields() {
		given += len(f.values)
		for _, v := range f.values {
			if v == "" {
				return fmt.Errorf("selector: %s has an empty value", f.name)
			}
		}
	}
	switch {
	case s.All && given > 0:
		return errors.New("selector: all excludes every other field")
	case !s.All && given == 0:
		return errors.New("selector: it has no field; to cover everything set all: true")
	}
	for _, r := range s.Risk {
		if !slices.Contains(risks[:], r) {
			return fmt.Errorf("selector: risk %q is not one of %s", r, strings.Join(risks[:], ", "))
		}
	}
	for _, h := range s.Host {
		if err := checkHost(h); err != nil {
			return err
		}
	}
	return nil
}

var risks = [...]string{"low", "medium", "high", "critical"}

// checkHost refuses what could never match, for a revocation that silently covers nothing is a false safety.
func checkHost(h string) error {
	if _, err := netip.ParseAddr(h); err == nil {
		return nil
	}
	name := strings.TrimSuffix(strings.TrimPrefix(h, "*."), ".")
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.ContainsFunc(label, notInLabel) {
			return fmt.Errorf("selector: host %q is neither a name, an address nor \"*.\" and a name "+
				"(no port, scheme or path; letters beyond ASCII as an A-label)", h)
		}
	}
	return nil
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// canonicalHost lower-cases a name and drops one trailing dot; an address takes the text that netip gives it. It
// allocates nothing for a host that is canonical already.
func canonicalHost(h string) string {
	h = strings.ToLower(strings.TrimSuffix(h, "."))
	if strings.Contains(h, ":") {
		var buf [64]byte
		if a, err := netip.ParseAddr(h); err == nil && string(a.AppendTo(buf[:0])) != h {
			return a.String()
		}
	}
	return h
}

func canonicalHosts(hs []string) []string {
	if len(hs) == 0 {
		return nil
	}
	out := make([]string, len(hs))
	for i, h := range hs {
		out[i] = canonicalHost(h)
	}
	return out
}

// clone returns a copy that shares no slice with s, with canonical hosts.
func (s Selector) clone() Selector {
	return Selector{
		Tool: slices.Clone(s.Tool), Version: slices.Clone(s.Version), Tenant: slices.Clone(s.Tenant),
		Subject: slices.Clone(s.Subject), Agent: slices.Clone(s.Agent), Task: slices.Clone(s.Task),
		Run: slices.Clone(s.Run), CapabilityClass: slices.Clone(s.CapabilityClass), Risk: slices.Clone(s.Risk),
		Host: canonicalHosts(s.Host), All: s.All,
	}
}

// equal compares field by field. Order within a field counts; a reordered list is treated as a change.
func (s *Selector) equal(o *Selector) bool {
	return s.All == o.All && slices.Equal(s.Tool, o.Tool) && slices.Equal(s.Version, o.Version) && slices.Equal(s.Tenant, o.Tenant) &&
		slices.Equal(s.Subject, o.Subject) && slices.Equal(s.Agent, o.Agent) && slices.Equal(s.Task, o.Task) &&
		slices.Equal(s.Run, o.Run) && slices.Equal(s.CapabilityClass, o.CapabilityClass) && slices.Equal(s.Risk, o.Risk) &&
		slices.Equal(s.Host, o.Host)
}
