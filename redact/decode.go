package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxNesting = 4 // layers of encoding, such as JSON texts inside JSON strings
	maxDecoded = 4 // bytes decoded in all, for each byte of the payload
	minRun     = 16
)

// layers looks into what is encoded in a text: percent, HTML's and JSON's escapes, base64 and hexadecimal. Where the decoded text has
// nothing to mask, the text stays as it is.
func (p *pass) layers(s, name string, nesting int) string {
	t := encodings(s)
	if t == 0 {
		return s
	}
	if nesting >= maxNesting {
		return p.unread(s, t)
	}
	if t&encEscape != 0 {
		s = p.whole(s, unescapeJSON(s), name, nesting)
	}
	if t&encHTML != 0 {
		s = p.whole(s, html.UnescapeString(s), name, nesting)
	}
	if t&encMarkup != 0 {
		s = p.markup(s, nesting)
	}
	if t&encPercent != 0 {
		s = p.percent(s, name, nesting)
	}
	if t&encRun != 0 {
		s = p.runs(s, name, nesting)
	}
	return s
}

// unread is what becomes of a text that is encoded more often than is looked into: nothing, if it does not decode.
func (p *pass) unread(s string, t int) string {
	decodes := t&encEscape != 0 && unescapeJSON(s) != s || t&encHTML != 0 && html.UnescapeString(s) != s
	if t&encPercent != 0 {
		u, err := url.PathUnescape(s)
		decodes = decodes || err == nil && u != s
	}
	if decodes {
		return p.put(maskEncoded, s)
	}
	if t&encRun != 0 {
		return p.eachRun(s, func(string) bool { return true })
	}
	return s
}

// spend reports whether so much may still be decoded.
func (p *pass) spend(n int) bool {
	p.decoded += n
	return !p.body || p.decoded <= p.allowed
}

// whole looks at a text through its decoded form, and returns that if it had to be masked.
func (p *pass) whole(s, plain, name string, nesting int) string {
	if plain == s {
		return s
	}
	if !p.spend(len(plain)) {
		return p.fail([]byte(s))
	}
	if safe := p.str(plain, name, nesting+1); safe != escapeHidden(plain) {
		return safe
	}
	return s
}

// What a text has that may be encoded.
const (
	encPercent = 1 << iota
	encHTML
	encEscape
	encRun    // base64 or hexadecimal
	encMarkup // tags of HTML or XML
)

func encodings(s string) (t int) {
	run, value := 0, false // value: behind "="
	for i := 0; i < len(s); i++ {
		c := s[i]
		if base64Table[c] {
			if run++; run == minRun {
				t |= encRun
			}
			if c == '+' && value {
				t |= encPercent
			}
			continue
		}
		run = 0
		switch c {
		case '=':
			value = true
		case '%':
			t |= encPercent
		case '&':
			if i+2 < len(s) && (s[i+1] == '#' || alnum(s[i+1])) {
				t |= encHTML
			}
		case '<':
			if i+1 < len(s) && (s[i+1] == '/' || alnum(s[i+1])) {
				t |= encMarkup
			}
		case '\\':
			t |= encEscape
		}
	}
	return t
}

var base64Table = func() (t [256]bool) {
	for c := range 256 {
		t[c] = base64Byte(byte(c))
	}
	return t
}()

// markup looks at each text between tags for itself, since a token may stand close to them.
func (p *pass) markup(s string, nesting int) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, ">")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteByte('>')
		end := strings.IndexByte(rest, '<')
		if end < 0 {
			end = len(rest)
		}
		node := rest[:end]
		if len(strings.TrimSpace(node)) >= minScanned && p.spend(len(node)) {
			node = p.str(node, "", nesting+1)
		}
		b.WriteString(node)
		s = rest[end:]
	}
}

// percent looks at each piece of a text that has percent signs, between what separates names and values. A URL's own rules
// are stricter, except for its path.
func (p *pass) percent(s, name string, nesting int) string {
	var b strings.Builder
	value := false
	for i := 0; i < len(s); {
		end := i
		for end < len(s) && !separates(s[end]) {
			end++
		}
		piece := s[i:end]
		if strings.Contains(piece, "%") || value && strings.Contains(piece, "+") {
			piece = p.percentPiece(piece, name, nesting, value)
		}
		b.WriteString(piece)
		value = end < len(s) && s[end] == '='
		if end < len(s) {
			if value {
				name, _ = url.QueryUnescape(s[i:end])
			}
			b.WriteByte(s[end])
			end++
		}
		i = end
	}
	return b.String()
}

func separates(c byte) bool { return c <= ' ' || strings.IndexByte("&=;?#\"'<>`\\,{}()", c) >= 0 }

// percentPiece reads "+" as a space, and then as itself. In a value that has no "%20" it is a space, but a credential that is known is
// looked for in either.
func (p *pass) percentPiece(piece, name string, nesting int, value bool) string {
	for i, unescape := range []func(string) (string, error){url.QueryUnescape, url.PathUnescape} {
		plain, err := unescape(piece)
		if err != nil {
			plain = lenientPercent(piece)
		}
		if plain == piece {
			return piece
		}
		if !p.spend(len(plain)) {
			return p.fail([]byte(piece))
		}
		if i == 1 && value && !strings.Contains(piece, "%20") {
			if safe := p.held(plain); safe != plain {
				return url.QueryEscape(safe)
			}
			break
		}
		if safe := p.str(plain, name, nesting+1); safe != escapeHidden(plain) {
			return url.QueryEscape(safe)
		}
		if !strings.Contains(piece, "+") {
			break
		}
	}
	return piece
}

// lenientPercent decodes what can be decoded.
func lenientPercent(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// runs looks into words that are base64 or hexadecimal of text.
func (p *pass) runs(s, name string, nesting int) string {
	return p.eachRun(s, func(plain string) bool {
		if !p.spend(len(plain)) {
			return true
		}
		inner := p.within()
		inner.str(plain, name, nesting+1)
		p.decoded = inner.decoded
		return len(inner.counts) > 0 || inner.failed
	})
}

// within is a pass over something inside, of which only is asked whether it holds something.
func (p *pass) within() *pass {
	return &pass{s: p.s, body: p.body, marks: p.marks, decoded: p.decoded, allowed: p.allowed}
}

// eachRun masks the encoded words of which bad says so of what they decode to.
func (p *pass) eachRun(s string, bad func(plain string) bool) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		if !base64Table[s[i]] {
			i++
			continue
		}
		end := i + 1
		for end < len(s) && base64Table[s[end]] {
			end++
		}
		word := s[i:end]
		if joined, stop := joinLines(s, i, end); stop > end {
			if plain, ok := decodeRun(joined); ok && bad(plain) {
				b.WriteString(s[done:i])
				b.WriteString(p.count(maskEncoded))
				done, i = stop, stop
				continue
			}
		}
		for end < len(s) && s[end] == '=' {
			end++
		}
		if len(word) >= minRun {
			if plain, ok := decodeRun(word); ok && bad(plain) {
				b.WriteString(s[done:i])
				b.WriteString(p.put(maskEncoded, s[i:end]))
				done = end
			}
		}
		i = end
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// decodeRun decodes a word that is hexadecimal or base64 of printable text.
func decodeRun(word string) (string, bool) {
	if len(word)%2 == 0 && len(word) >= 2*minRun {
		if b, err := hex.DecodeString(word); err == nil {
			return printable(b)
		}
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(word, "-_") {
		encoding = base64.RawURLEncoding
	}
	if !begins64(readOnly(word)) {
		return "", false
	}
	if len(word)%4 == 1 {
		word = word[:len(word)-1]
	}
	b, err := encoding.DecodeString(word)
	if err != nil {
		return "", false
	}
	return printable(b)
}

// mayDecode reports whether decodeRun may decode a word of at least minRun bytes.
func mayDecode(word []byte) bool {
	if len(word)%2 == 0 && len(word) >= 2*minRun {
		if text, ok := hexText(word); ok {
			return text
		}
	}
	return begins64(word) && beginsRunes(word)
}

// beginsRunes reports whether what a word begins with, which is base64, decodes to printable UTF-8.
func beginsRunes(word []byte) bool {
	var buf [12]byte
	for i, c := range word[:minRun] {
		switch d := digits64[c]; i % 4 {
		case 0:
			buf[i/4*3] = d << 2
		case 1:
			buf[i/4*3] |= d >> 4
			buf[i/4*3+1] = d << 4
		case 2:
			buf[i/4*3+1] |= d >> 2
			buf[i/4*3+2] = d << 6
		case 3:
			buf[i/4*3+2] |= d
		}
	}
	for b := buf[:]; utf8.FullRune(b); {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		b = b[n:]
	}
	return true
}

// hexText reports whether a word is hexadecimal, and may be that of text.
func hexText(word []byte) (text, ok bool) {
	for _, c := range word {
		if c-'0' > 9 && (c|0x20)-'a' > 5 {
			return false, false
		}
	}
	var b [1]byte
	for i := 0; i < len(word); i += 2 {
		if _, err := hex.Decode(b[:], word[i:i+2]); err != nil || b[0] < '\t' || b[0] > '\r' && b[0] < ' ' || b[0] == 0x7f {
			return false, true
		}
	}
	return true, true
}

// begins64 reports whether a word begins as base64 of text does: most words do not, which shows in the first bytes.
func begins64(word []byte) bool {
	url := bytes.IndexByte(word, '-') >= 0 || bytes.IndexByte(word, '_') >= 0
	for i := 0; i+4 <= min(len(word), 16); i += 4 {
		var v uint32
		for _, c := range word[i : i+4] {
			d := digits64[c]
			if d > 63 || url && (c == '+' || c == '/') {
				return false
			}
			v = v<<6 | uint32(d)
		}
		if !beginsText(byte(v>>16)) || !beginsText(byte(v>>8)) || !beginsText(byte(v)) {
			return false
		}
	}
	return true
}

// digits64 are the values of base64's digits, of both alphabets; 255 is none.
var digits64 = func() (t [256]uint8) {
	for c := range t {
		t[c] = 255
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = uint8(i)
	}
	t['-'], t['_'] = t['+'], t['/']
	return t
}()

func beginsText(c byte) bool {
	return c >= ' ' && c != 0x7f || c == '\n' || c == '\r' || c == '\t'
}

func printable(b []byte) (string, bool) {
	if !utf8.Valid(b) {
		return "", false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return "", false
		}
	}
	return string(b), true
}

// unescapeJSON decodes the escapes of characters in a piece of JSON or of a language like it. Quotes, backslashes and controls stay
// escaped, so that where a value ends can still be told.
func unescapeJSON(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		slash := i
		for i < len(s) && s[i] == '\\' {
			i++
		}
		if slash == i {
			b.WriteByte(s[i])
			continue
		}
		c, n := escaped(s[i:])
		if n == 0 {
			b.WriteString(s[slash:min(i+1, len(s))])
			continue
		}
		b.WriteRune(c)
		i += n - 1
	}
	return b.String()
}

// escaped returns the character that an escape, without its backslash, stands for, and the escape's length; or 0.
func escaped(s string) (rune, int) {
	n := 0
	switch {
	case s == "":
		return 0, 0
	case s[0] == '/':
		return '/', 1
	case s[0] == 'x':
		n = 3
	case s[0] == 'u':
		n = 5
	case s[0] == 'U':
		n = 9
	}
	if n == 0 || len(s) < n {
		return 0, 0
	}
	r, err := strconv.ParseUint(s[1:n], 16, 32)
	if err != nil || r < ' ' || r == '"' || r == '\'' || r == '\\' || r == 0x7f {
		return 0, 0
	}
	return rune(r), n
}
