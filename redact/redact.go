package redact

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/redact/detect"
)

// The placeholders are of fixed length and say only which rule masked.
const (
	maskField      = "[REDACTED:field]"
	maskCredential = placeholder
	maskURL        = "[REDACTED:url]"
	maskEncoded    = "[REDACTED:encoded]"
	maskHeader     = "[REDACTED:header]"
)

var masks = func() []string {
	all := []string{maskField, maskCredential, maskURL, maskEncoded, maskHeader}
	for _, class := range append([]string{detect.Token, detect.JWT, detect.PrivateKey, detect.Userinfo, detect.SignedURL}, detect.PII...) {
		all = append(all, "[REDACTED:"+class+"]")
	}
	return all
}()

// placeholderLen returns the length of the placeholder that s begins with, or 0.
func placeholderLen(s string) int {
	if s == "" || s[0] != '[' {
		return 0
	}
	for _, m := range masks {
		if strings.HasPrefix(s, m) {
			return len(m)
		}
	}
	if n, _ := markLen(s, 0); n > 0 {
		return n
	}
	rest, ok := strings.CutPrefix(s, "[unparsed ")
	if !ok {
		return 0
	}
	rest = strings.TrimLeft(rest, "0123456789")
	rest, ok = strings.CutPrefix(rest, " bytes")
	if !ok {
		return 0
	}
	if hash, ok := strings.CutPrefix(rest, " hmac="); ok && len(hash) >= hashLen {
		rest = hash[hashLen:]
		if strings.Trim(hash[:hashLen], "0123456789abcdef") != "" {
			return 0
		}
	}
	if !strings.HasPrefix(rest, "]") {
		return 0
	}
	return len(s) - len(rest) + 1
}

// Scrubber masks payloads: the fields that a manifest names, and whatever the detectors find. The zero value and nil mask what is
// secret by its name or shape, and DefaultClasses. It is immutable and safe for concurrent use.
type Scrubber struct {
	fields map[string]bool
	ends   [256]bool // the last bytes of fields
	paths  []path
	set    *detect.Set // nil: the default
}

// Rules are what a manifest says of redaction.
type Rules struct {
	// Fields are key names, matched at any depth in normalised spelling (lower case, NFKC, without "_", "-", "." and spaces), or,
	// beginning with "$", paths in a JSON value as of RFC 9535: names, indexes, "*" and "..".
	Fields []string
	// Classes are those of detect.PII that are masked besides; nil means DefaultClasses, and an empty list none.
	Classes []string
}

// Classes returns the classes of personal data that Rules may name.
func Classes() []string { return slices.Clone(detect.PII) }

// NewRules returns the Scrubber for these rules. The error names a path or class that is none.
func NewRules(r Rules) (*Scrubber, error) {
	s := &Scrubber{fields: make(map[string]bool, len(r.Fields))}
	for _, f := range r.Fields {
		if strings.HasPrefix(f, "$") {
			p, err := parsePath(f)
			if err != nil {
				return nil, err
			}
			s.paths = append(s.paths, p)
		} else if n := normalise(f); n != "" {
			s.field(n)
		}
	}
	if r.Classes != nil {
		set, err := detect.New(detect.Options{PII: r.Classes})
		if err != nil {
			return nil, err
		}
		s.set = set
	}
	return s, nil
}

// field adds a key name, in its normalised spelling.
func (s *Scrubber) field(name string) {
	s.fields[name] = true
	c := name[len(name)-1]
	s.ends[c] = true
	if 'a' <= c && c <= 'z' {
		s.ends[c-'a'+'A'] = true
	}
}

// ending reports whether a name that text before a ":" or "=" could be masked for can end with this byte.
func (s *Scrubber) ending(c byte) bool { return nameEnds[c] || s != nil && s.ends[c] }

// mask returns the placeholder for the value of a payload's key, or "" if its name is harmless.
func (s *Scrubber) mask(name string) string {
	if len(name) > maxName {
		return ""
	}
	var buf [64]byte
	n := appendNormal(buf[:0], name)
	switch {
	case s != nil && s.fields[string(n)]:
		return maskField
	case secretNames[string(n)]:
		return maskCredential
	}
	return ""
}

// Result is what redaction made of one payload.
type Result struct {
	Text   string         // safe to print
	Status string         // "none", "redacted" or "failed_closed"
	Counts map[string]int // number of masks by class: "field", "url", "encoded", and those of package detect
}

// The values of Result.Status.
const (
	StatusNone         = "none"
	StatusRedacted     = "redacted"
	StatusFailedClosed = "failed_closed"
)

// pass is one redaction under way.
type pass struct {
	s      *Scrubber // nil in free text that is no payload
	body   bool      // a payload, where masking too much is better than too little
	counts map[string]int
	failed bool

	keys   map[string]*key  // names that were seen and are harmless
	found  []detect.Span    // room
	labels map[string]label // names that were seen as values

	joins            *joins // while an event is masked
	marks            *marks // nil: placeholders stay
	decoded, allowed int    // bytes that came out of layers of encoding, and may
}

// count notes a mask and returns its placeholder.
func (p *pass) count(mask string) string {
	class := strings.TrimSuffix(strings.TrimPrefix(mask, "[REDACTED:"), "]")
	if p.counts == nil {
		p.counts = map[string]int{}
	}
	p.counts[class]++
	return mask
}

// fail notes that b cannot be read and returns what stands for it.
func (p *pass) fail(b []byte) string {
	p.failed = true
	if n := placeholderLen(string(b)); n == len(b) && n > 0 {
		return string(b)
	}
	if p.marks != nil {
		return p.marks.add(mark{class: classOf(maskUnparsed), value: string(b)})
	}
	return unparsed(b)
}

func (p *pass) result(text string) Result {
	r := Result{Text: text, Status: StatusNone, Counts: p.counts}
	switch {
	case p.failed:
		r.Status = StatusFailedClosed
	case len(p.counts) > 0:
		r.Status = StatusRedacted
	}
	return r
}
