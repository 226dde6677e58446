package egress

import (
	"fmt"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Pattern is one entry of allowedDomains: "api.example", "*.cdn.example", "198.51.100.7", "[2001:db8::1]:8443", each
// with an optional ":port"; without one it means 443 and 80. "*.x" matches one or more labels below x, never x itself.
// The zero value matches nothing.
type Pattern struct {
	text  string // as written
	host  string // canonical; of a wildcard the part after "*."
	port  uint16 // 0: 443 and 80
	below bool   // a wildcard
}

// PatternError says why an entry is not a Pattern or a PathPattern.
type PatternError struct {
	Entry  string // as written
	Reason string
}

// Error names the entry and the reason.
func (e *PatternError) Error() string { return fmt.Sprintf("%q: %s", e.Entry, e.Reason) }

// UnmarshalText parses a pattern. A bare "*", a wildcard over a public suffix ("*.com", "*.co.uk", and "*.github.io"
// too, where strangers may register), a wildcard inside a label, over a single label or over an address, a URL, a path,
// a U-label (the error suggests the A-label) are errors of type *PatternError, which name the entry and leave p alone.
//
// The list of public suffixes is a guard against slips, not a boundary: it does not refuse "*.amazonaws.com", below
// which strangers have names as well.
func (p *Pattern) UnmarshalText(b []byte) error {
	q := Pattern{text: string(b)}
	if reason := q.parse(); reason != "" {
		return &PatternError{Entry: q.text, Reason: reason}
	}
	*p = q
	return nil
}

// String returns the pattern as written.
func (p Pattern) String() string { return p.text }

// Match reports whether the pattern covers a canonical host and port.
func (p Pattern) Match(host string, port uint16) bool { return p.matchHost(host) && p.matchPort(port) }

func (p Pattern) matchHost(host string) bool {
	if p.host == "" {
		return false
	}
	if !p.below {
		return host == p.host
	}
	rest, ok := strings.CutSuffix(host, p.host)
	return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
}

func (p Pattern) matchPort(port uint16) bool {
	if p.port != 0 {
		return port == p.port
	}
	return port == 443 || port == 80
}

// parse fills in host, port and below from text, or returns the reason why it cannot.
func (p *Pattern) parse() string {
	text := p.text
	switch {
	case text == "":
		return "the entry is empty"
	case strings.Contains(text, "://"):
		return "a URL is not a pattern; write the host alone, with :port if it is neither 443 nor 80"
	case strings.Contains(text, "/"):
		return "a path or a prefix length does not belong in a pattern; write the host alone"
	}
	if text, p.below = strings.CutPrefix(text, "*."); !p.below && strings.Contains(text, "*") {
		if text == "*" || strings.HasPrefix(text, "*:") {
			return `a bare "*" would allow every host; name the hosts`
		}
		return `a wildcard is the whole first label, as in "*.cdn.example"`
	}
	if strings.Contains(text, "*") {
		return "a pattern has one wildcard at most"
	}
	var err error
	if p.host, p.port, err = parsePatternHost(text); err != nil {
		if a, ok := suggestALabels(p.text); ok && err == hostNonASCII {
			return fmt.Sprintf("only ASCII is allowed; write %q", a)
		}
		return err.Error()
	}
	if p.below {
		return checkWildcard(p.host)
	}
	return ""
}

// parsePatternHost parses a host with or without a port, where port 0 means without. An IPv6 address without a port
// needs no brackets here.
func parsePatternHost(s string) (string, uint16, error) {
	if _, _, hasPort := cutPort(s); hasPort && (s[0] == '[' || strings.Count(s, ":") == 1) {
		return ParseAuthority(s, 0)
	}
	host, err := ParseHost(s)
	return host, 0, err
}

func checkWildcard(host string) string {
	if isAddress(host) {
		return "a wildcard cannot stand over an address"
	}
	// Of a name outside the list the suffix is its last label, so that every single label is refused as well.
	if suffix, _ := publicsuffix.PublicSuffix(host); suffix == host {
		return fmt.Sprintf("%q is a public suffix, below which anybody may have a name; name the hosts", host)
	}
	return ""
}

// suggestALabels returns the entry with its U-labels encoded, if that gives a host.
func suggestALabels(entry string) (string, bool) {
	text, wild := strings.CutPrefix(entry, "*.")
	host, port, hasPort := cutPort(text)
	a, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", false
	}
	if _, err := ParseHost(a); err != nil {
		return "", false
	}
	if wild {
		a = "*." + a
	}
	if hasPort {
		a += ":" + port
	}
	return a, true
}
