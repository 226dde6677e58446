package egress

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

// Pattern is one entry of allowedDomains: "api.example", "*.cdn.example", "198.51.100.7", each with an optional
// ":port"; without one it means 443 and 80. "*.x" matches one or more labels below x, never x itself.
type Pattern struct{ _ struct{} }

// UnmarshalText parses a pattern. A bare "*", a wildcard over a public suffix ("*.com"), a wildcard inside a label, a
// URL, a path, a U-label (the error suggests the A-label) are errors that name the entry.
func (p *Pattern) UnmarshalText(b []byte) error { panic("contract") }

// String returns the pattern as written.
func (p Pattern) String() string { panic("contract") }

// Match reports whether the pattern covers a canonical host and port.
func (p Pattern) Match(host string, port uint16) bool { panic("contract") }

// PathPattern matches an escaped request path: literal, or with "*" for one segment, or a trailing "/*" or "/**" for
// one or more segments. It never matches a path with dot segments, encoded slashes or backslashes.
type PathPattern struct{ _ struct{} }

// UnmarshalText parses a path pattern, which must begin with "/".
func (p *PathPattern) UnmarshalText(b []byte) error { panic("contract") }

// String returns the pattern as written.
func (p PathPattern) String() string { panic("contract") }

// Rule narrows the allowlist for one host pattern on requests that can be seen.
type Rule struct {
	Host    Pattern
	Ports   []uint16      // empty: those of the pattern
	Methods []string      // upper case; empty: any
	Paths   []PathPattern // empty: any
}

// Policy is a tool's allowlist. Nil denies everything.
type Policy struct {
	Allowed []Pattern
	Rules   []Rule
}

// Decide judges t by name alone; it never resolves. A tunnel (no method) is judged by host and port only. Where rules
// name the host, at least one must match the port, and on a request the method and the path as well.
func (p *Policy) Decide(t Target) Decision { panic("contract") }

// NeedsIntercept reports whether a rule restricts methods or paths for this host and port, so that a tunnel to it must
// be intercepted for the rule to be enforced.
func (p *Policy) NeedsIntercept(host string, port uint16) bool { panic("contract") }
