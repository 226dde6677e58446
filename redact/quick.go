package redact

import (
	"bytes"
	"strings"

	"github.com/toolgate/toolgate/redact/known"
)

// sign is what a byte of a string may be the sign of.
type sign uint16

const (
	signStop   sign = 1 << iota // it ends a run of characters: a quote, a backslash or a control
	signOdd                     // it is not printable ASCII, or an escape
	signNumber                  // a number has it
	signSep                     // it stands between a name or scheme and its value
	signCode                    // it may be the beginning of an escape or of a tag
	signWords                   // no base64 or hexadecimal has it
)

var signs = func() (t [256]sign) {
	for c := range t {
		if c < ' ' || c == '"' || c == '\\' {
			t[c] |= signStop
		}
		if c < ' ' || c == '\\' || c >= 0x7f {
			t[c] |= signOdd
		}
		if !base64Byte(byte(c)) && c != '=' {
			t[c] |= signWords
		}
	}
	for _, c := range "0123456789+-.eE" {
		t[c] |= signNumber
	}
	for _, c := range ":=+" {
		t[c] |= signSep
	}
	for _, c := range "%&<" {
		t[c] |= signCode
	}
	t['"'] &^= signWords // the string's own
	return t
}()

// verdict is what a quick look at a string says.
type verdict uint8

const (
	unsure  verdict = iota // look at it in every way
	quiet                  // str would return it as it is, and count nothing
	covered                // str would mask pass.found in it, and nothing else
)

// quick judges a string that is printable ASCII without an escape. It is what most strings of most payloads cost, so it copies nothing.
func (p *pass) quick(raw []byte, s sign, k *key) verdict {
	if len(raw) == 0 {
		return quiet
	}
	first := raw[0]
	if first == ' ' {
		if trimmed := bytes.TrimLeft(raw, " "); len(trimmed) > 0 {
			first = trimmed[0]
		}
	}
	switch {
	case s&signCode != 0:
		return unsure
	case first == '{' || first == '[':
		return unsure
	case len(raw) >= minEncoded && s&signWords == 0 && (first == 'e' || first == 'W') && digits64[raw[1]] >= 48: // "{" or "["
		return unsure
	case s&signSep != 0 && !p.unpaired(raw):
		return unsure
	case len(raw) >= minRun && (hasRun(raw) || inPlaces(raw)):
		return unsure
	}
	return p.find(raw, k)
}

// placeBits has a bit for the first three letters of each word of places.
var placeBits = func() (bits [1 << 15 / 64]uint64) {
	for _, l := range places {
		for _, w := range l.words {
			if len(w) < 3 { // "</", which quick is unsure of anyway
				continue
			}
			h := placeBit(w[0], w[1], w[2])
			bits[h>>6] |= 1 << (h & 63)
		}
	}
	return bits
}()

// placeBit is the same for upper and lower case.
func placeBit(a, b, c byte) int { return int(a&31)<<10 | int(b&31)<<5 | int(c&31) }

// inPlaces reports whether the text may have a word of places.
func inPlaces(raw []byte) bool {
	for i := 2; i < len(raw); i++ {
		if h := placeBit(raw[i-2], raw[i-1], raw[i]); placeBits[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		low := strings.ToLower(string(raw))
		for n := range places {
			if places[n].in(low) {
				return true
			}
		}
		return false
	}
	return false
}

// unpaired reports whether no separator in the text stands behind what may be the name of a secret or a scheme, and none begins an
// authority.
func (p *pass) unpaired(raw []byte) bool {
	value := false
	for i, c := range raw {
		if signs[c]&signSep == 0 {
			continue
		}
		if value = value || c == '='; value && c == '+' {
			return false // it is a space there
		}
		end := i
		for end > 0 && (raw[end-1] == ' ' || raw[end-1] == '\'' || raw[end-1] == '`' || raw[end-1] == ']') {
			end--
		}
		if end > 0 && p.s.ending(raw[end-1]) || i+1 < len(raw) && raw[i+1] == '/' {
			return false
		}
	}
	return true
}

// hasRun reports whether the text has a word that may be base64 or hexadecimal of text. Such a word is at least minRun bytes long, so
// it takes in a place of which the number is a multiple of that.
func hasRun(raw []byte) bool {
	for i := minRun - 1; i < len(raw); i += minRun {
		if !base64Table[raw[i]] {
			continue
		}
		start, end := i, i+1
		for start > 0 && base64Table[raw[start-1]] {
			start--
		}
		for end < len(raw) && base64Table[raw[end]] {
			end++
		}
		if end-start >= minRun && mayDecode(raw[start:end]) {
			return true
		}
		i = max(i, end-1-end%minRun) // the next place is the first behind the word
	}
	return false
}

// holds reports whether the text has a credential that the process holds.
func (p *pass) holds(raw []byte) bool {
	if len(raw) < known.MinLength || live.Len() == 0 {
		return false
	}
	p.found = live.Scan(p.found[:0], raw)
	return len(p.found) > 0
}

// find says what held and detect would mask. It is unsure where a word stands that text looks at too.
func (p *pass) find(raw []byte, k *key) verdict {
	if len(raw) < minScanned {
		return quiet
	}
	if p.holds(raw) {
		return unsure
	}
	name := ""
	if k != nil && k.tells {
		name = k.text
	}
	set := p.detectors()
	seen := set.Look(raw)
	if seen.Quiet() && name == "" {
		return quiet
	}
	if seen.Scheme {
		return unsure
	}
	if p.found = set.ScanSeen(p.found[:0], raw, name, seen); len(p.found) > 0 {
		return covered
	}
	return quiet
}
