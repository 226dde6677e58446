// Package detect finds secrets and personal data in text: vendors' tokens by the rules of gitleaks, which are data here, and by detectors
// of its own JWTs, private keys, credentials in URLs and after names, and nine classes of personal data.
//
// Limits: it looks at text as it is. Whoever calls it has taken off transfer encodings, escapes and containers before, and
// gives a value's field name along. A secret without a known form and without a name is not found here; for credentials that
// the process holds itself there is package known. Nothing in a text switches a rule off: no comment, no placeholder.
//
// It is a leaf: it imports only its own package pattern, and every package of this module may import it.
package detect

import (
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

// Options choose what a Set looks for.
type Options struct {
	// PII names classes of personal data, out of the list PII. Secrets are always looked for.
	PII []string
}

// Set is a choice of detectors. It is immutable and safe for concurrent use; all Sets of a process share the rules.
type Set struct {
	*ruleset
	card, iban, email, phone, ssn, ip, mac, wallet, national bool
	digits, grouped                                          bool // any that begin at a digit; any with digits in groups
	want                                                     mark // what marks looks at
}

// New returns a Set. The error names a class that is none of PII.
func New(o Options) (*Set, error) {
	s := &Set{ruleset: loaded()}
	on := map[string]*bool{Card: &s.card, IBAN: &s.iban, Email: &s.email, Phone: &s.phone, SSN: &s.ssn, IP: &s.ip, MAC: &s.mac,
		Wallet: &s.wallet, NationalID: &s.national}
	for _, class := range o.PII {
		if on[class] == nil {
			return nil, fmt.Errorf("unknown class of personal data %q, expected one of %v", class, PII)
		}
		*on[class] = true
	}
	s.grouped = s.card || s.phone || s.ssn || s.national
	s.digits = s.grouped || s.iban || s.ip || s.wallet
	s.want = s.wanted()
	return s, nil
}

// Rules returns the module and version that the vendor rules come from.
func (s *Set) Rules() string { return s.source }

// scanner is one scan under way, and the memory that it works with.
type scanner struct {
	*Set
	text    []byte
	spans   []Span
	machine pattern.Machine
	tried   map[*rule]int // up to where a rule with a window has been tried
	slow    map[*rule]int // up to where a rule has been matched slowly
	named   []byte        // a name and its value, as text
	open    int           // from where the end of the text may be a part of something
	least   int           // the same, while edges are looked at
	begun   Begun
	blocks  int // up to where PEM blocks have been looked at
	curls   int // up to where options of curl have been looked at
	pairs   int // up to where names have been looked at
}

var scanners = sync.Pool{New: func() any { return &scanner{tried: map[*rule]int{}, slow: map[*rule]int{}} }}

// Scan appends the spans of text to dst, sorted and without overlaps. name is the name of the field whose value the text is, or
// empty: rules that want a name before a value then find it. Text that is nobody's value, such as a line of a log, has none.
func (s *Set) Scan(dst []Span, text []byte, name string) []Span {
	return s.ScanSeen(dst, text, name, s.Look(text))
}

// ScanSeen is Scan for a text that Look has looked at.
func (s *Set) ScanSeen(dst []Span, text []byte, name string, seen Seen) []Span {
	if len(text) == 0 || name == "" && seen.Quiet() {
		return dst
	}
	c := scanners.Get().(*scanner)
	c.Set = s
	if name != "" {
		c.nameAndValue(name, text)
	}
	dst = c.all(dst, text, seen)
	c.done()
	return dst
}

// all looks for everything, and appends what was found.
func (c *scanner) all(dst []Span, text []byte, seen Seen) []Span {
	c.begin(text)
	if seen.Word {
		c.words()
	}
	if seen.Sign {
		c.marks()
	}
	if len(c.spans) == 0 {
		return dst
	}
	c.widen()
	c.edges()
	return append(dst, merge(c.spans)...)
}

// done gives the scanner back. What a scan of something huge needed must not be kept for ever.
func (c *scanner) done() {
	c.Set, c.text, c.spans = nil, nil, c.spans[:0]
	if cap(c.spans) <= maxKept && cap(c.named) <= maxKept {
		scanners.Put(c)
	}
}

// maxKept bounds what a scanner keeps for the next scan.
const maxKept = 16 << 10

func (c *scanner) begin(text []byte) {
	c.text, c.blocks, c.curls, c.pairs, c.open, c.begun = text, 0, 0, 0, len(text), Begun{}
	clear(c.tried)
	clear(c.slow)
}

func (c *scanner) found(start, end int, class string) {
	if start < end {
		c.spans = append(c.spans, Span{start, end, class})
	}
}

// covered reports whether a span that was found takes in the place.
func (c *scanner) covered(at int) bool {
	for i := len(c.spans) - 1; i >= 0 && i >= len(c.spans)-4; i-- {
		if c.spans[i].Start <= at && at < c.spans[i].End {
			return true
		}
	}
	return false
}

// maxNamed is how much of a value is looked at together with its name. No rule that wants a name takes a longer one, but for
// base64 of any length, which is found by its name alone.
const maxNamed = 2 << 10

// nameAndValue finds what the name tells about the value: whether it is a secret's, and what rules find in `name: "value"`.
func (c *scanner) nameAndValue(name string, text []byte) {
	if len(name) > maxName {
		return
	}
	if c.secretValue(name, text) {
		c.found(0, len(text), Credential)
		return
	}
	var state uint16
	n := append(c.named[:0], name...)
	if _, out := c.auto.scan(n, 0, &state); out == 0 {
		c.named = n
		return
	}
	n = append(n, `: "`...)
	from := len(n)
	n = append(n, text[:min(len(text), maxNamed)]...)
	n = append(n, '"')
	c.named = n
	c.begin(n)
	end := from - 3 // only words of the name give hints
	for at, state := 0, uint16(0); at < end; {
		stop, out := c.auto.scan(n[:end], at, &state)
		c.hinted(stop, out)
		at = stop
	}
	kept := c.spans[:0]
	for _, s := range c.spans {
		s.Start, s.End = max(s.Start-from, 0), min(s.End-from, len(text))
		if s.Start < s.End {
			kept = append(kept, s)
		}
	}
	c.spans = kept
}
