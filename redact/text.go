package redact

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text masks what is secret by shape in free text: URLs' user info, query and fragment, bearer and basic credentials,
// JWTs, PEM blocks, and the value after a name such as "password=". It also neutralises control characters, so that
// what it returns stays on one line.
//
// What of it is encoded is not looked into, except for the credentials that the process holds. Package detect's rules for vendors'
// tokens are looked for as well; personal data is not.
func Text(s string) string {
	p := &pass{}
	return neutralise(p.detect(p.text(p.held(s)), ""))
}

// text is Text without the care for control characters.
func (p *pass) text(s string) string {
	t := triggers(s)
	if t&^trigHidden == 0 {
		return s
	}
	if t&trigPEM != 0 {
		s = p.pem(s)
	}
	if t&trigPair != 0 && strings.Contains(s, "://") {
		if !p.body {
			s = p.urls(s)
		} else if oneURL(s) {
			s = p.bodyURL(s)
		}
	}
	if t&(trigScheme|trigJWT) != 0 {
		s = p.tokens(s)
	}
	if t&trigPair != 0 {
		s = p.pairs(s)
	}
	return s
}

// oneURL reports whether a payload's string is a URL. Of one, the parameters of bearerParams are masked; of those in a longer text package
// detect finds what lets its bearer in.
func oneURL(s string) bool { return !strings.ContainsAny(strings.TrimSpace(s), " \t\r\n\"'<>\\") }

// What a text has that deserves a closer look.
const (
	trigPair   = 1 << iota // ":" or "=": a pair or a URL
	trigPEM                // "-----BEGIN"
	trigJWT                // "eyJ"
	trigScheme             // "bearer" or "basic"
	trigHidden             // a control character or one beyond ASCII
)

// triggers looks at each byte once. Nearly all log text has none, and costs no more than this.
func triggers(s string) (t int) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ':', '=':
			t |= trigPair
		case '-':
			if strings.HasPrefix(s[i:], "-----BEGIN") {
				t |= trigPEM
			}
		case 'e':
			if strings.HasPrefix(s[i:], "eyJ") {
				t |= trigJWT
			}
		case 'b', 'B':
			if hasPrefixFold(s[i:], "bearer") || hasPrefixFold(s[i:], "basic") {
				t |= trigScheme
			}
		default:
			if c < 0x20 || c >= 0x7f {
				t |= trigHidden
			}
		}
	}
	return t
}

// hasPrefixFold compares ASCII without regard to case; prefix is in lower case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// pem masks each block from its BEGIN line to its END line, or to the end of the text.
func (p *pass) pem(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "-----BEGIN")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		block, rest, ok := strings.Cut(rest, "-----END")
		if p.body && ok && strings.HasSuffix(block, "-----") && strings.Count(block, "-----") == 1 { // nothing between the lines
			b.WriteString("-----BEGIN" + block + "-----END")
			s = rest
			continue
		}
		b.WriteString(p.put(maskCredential, "-----BEGIN"+block))
		if !ok {
			return b.String()
		}
		_, s, ok = strings.Cut(rest, "-----")
		if !ok {
			return b.String()
		}
	}
}

// urls passes each "scheme://…" through URL.
func (p *pass) urls(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		start := i
		for start > 0 && (alnum(s[start-1]) || strings.IndexByte("+-.", s[start-1]) >= 0) {
			start--
		}
		for start < i && !alnum(s[start]) {
			start++
		}
		end := i + 3
		for end < len(s) && s[end] > ' ' && s[end] != 0x7f && strings.IndexByte("\"'<>`\\", s[end]) < 0 {
			end++
		}
		b.WriteString(s[:start])
		b.WriteString(p.url(s[start:end]))
		s = s[end:]
	}
}

func (p *pass) url(u string) string {
	if !strings.ContainsAny(u, "@?#") {
		return u
	}
	if p.marks != nil {
		return p.urlParts(u)
	}
	safe := URL(u)
	if safe != u {
		p.count(maskURL)
	}
	return safe
}

// neutralise writes control characters, those that reorder text, and bytes that are not UTF-8 as escapes. A backslash
// stays as it is, so that doing it twice changes nothing.
func neutralise(s string) string { return escape(s, true) }

// escapeHidden is neutralise for a string that a JSON encoder will write: that one takes care of ASCII controls.
func escapeHidden(s string) string { return escape(s, false) }

func escape(s string, ascii bool) string {
	i := 0
	for i < len(s) && s[i] < 0x7f && (s[i] >= 0x20 || !ascii) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x20 && !ascii:
			b.WriteByte(s[i])
		case r == 0x7f && !ascii: // in a JSON text, an escape must be JSON's
			b.WriteString(`\u007f`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// hidden reports C1 controls, line separators, and characters that reorder or hide text on a terminal.
func hidden(r rune) bool {
	return 0x80 <= r && r <= 0x9f || 0x200b <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e ||
		0x2060 <= r && r <= 0x2069 || r == 0xfeff
}
