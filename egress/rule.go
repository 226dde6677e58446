package egress

import (
	"errors"
	"fmt"
	"slices"
)

// Rule narrows the allowlist for one host pattern on requests that can be seen.
type Rule struct {
	Host    Pattern
	Ports   []uint16      // empty: those of the pattern
	Methods []string      // upper case; empty: any
	Paths   []PathPattern // empty: any
}

// Validate returns an error for a rule that could never match: one without a host, with ports beside a port in its
// pattern, with port 0, or with a method that is not upper case.
func (r Rule) Validate() error {
	switch {
	case r.Host.host == "":
		return errors.New("the rule names no host")
	case len(r.Ports) > 0 && r.Host.port != 0:
		return fmt.Errorf("%q has a port already; leave out ports", r.Host.text)
	case slices.Contains(r.Ports, 0):
		return errors.New("0 is not a port")
	}
	for _, m := range r.Methods {
		if !upperToken(m) {
			return fmt.Errorf("%q is not a method in upper case", m)
		}
	}
	return nil
}

func upperToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// names reports whether the rule speaks of a target at all. The host alone decides it, except where the pattern has a
// port: then the rule leaves other ports to other rules.
func (r *Rule) names(host string, port uint16) bool {
	return r.Host.matchHost(host) && (r.Host.port == 0 || r.Host.port == port)
}

func (r *Rule) matchPort(port uint16) bool {
	if len(r.Ports) == 0 {
		return r.Host.matchPort(port)
	}
	return slices.Contains(r.Ports, port)
}

func (r *Rule) matchMethod(method string) bool {
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method)
}

// matchPath returns the pattern that covers path. plain says that path is unambiguous.
func (r *Rule) matchPath(path string, plain bool) (pattern string, ok bool) {
	if len(r.Paths) == 0 {
		return "", true
	}
	for i := range r.Paths {
		if plain && r.Paths[i].match(path) {
			return r.Paths[i].text, true
		}
	}
	return "", false
}
