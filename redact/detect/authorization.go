package detect

import (
	"bytes"
	"encoding/base64"
)

// authorization finds the credentials of an Authorization or Proxy-Authorization field (RFC 9110, section 11.6.2), in a header
// block, a command line or a piece of JSON. The scheme stays.
func (c *scanner) authorization(at int) {
	end := run(c.text, at, &nameByte)
	if !foldPrefix(c.text[at:end], "authorization") || c.covered(at) {
		return
	}
	from, quote := separator(c.text, end)
	if from < 0 {
		return
	}
	word := from + run(c.text[from:], 0, &nameByte)
	if quote == 0 {
		quote = closingQuote(c.text, back(c.text, at, maxName, &nameByte))
	}
	if word > from && word < len(c.text) && blank[c.text[word]] {
		from = run(c.text, word, &blank)
	}
	to := lineEnd(c.text, from, quote)
	if to == len(c.text) {
		c.touch(from)
	}
	value := bytes.TrimRight(c.text[from:to], " \\")
	if len(value) < 8 || template(value) || standIn(value) || sameByte(value) || prose(value) && !bytes.Contains(value, []byte(`="`)) || !varied(value) && len(value) < 16 {
		return
	}
	if i := bytes.IndexByte(value, ' '); i > 0 && !bytes.ContainsAny(value, "=,") {
		value = value[:i] // a token, and then prose
		if len(value) < 8 || !varied(value) {
			return
		}
	}
	c.hide(from, from+len(value), Credential)
}

// lineEnd returns the end of a field's value: the quote that it stands in, or the line's end. A quote behind "=" is a parameter's, and
// belongs to the value with what is in it.
func lineEnd(text []byte, at int, quote byte) int {
	inside := false
	for start := at; at < len(text) && text[at] >= ' ' && at-start < maxValue; at++ {
		b := text[at]
		switch {
		case quote != 0:
			if b == quote {
				return at
			}
		case inside:
			inside = b != '"'
		case b == '"' && at > start && text[at-1] == '=':
			inside = true
		case in(b, "\"'`"):
			return at
		}
	}
	return at
}

// closingQuote returns the quote that stands before a name, which is what ends the value too: curl -H "Authorization: …".
func closingQuote(text []byte, at int) byte {
	if at > 0 && in(text[at-1], "\"'`") {
		return text[at-1]
	}
	return 0
}

// scheme finds the credentials behind "Bearer" (RFC 6750, section 2.1) and "Basic" (RFC 7617).
func (c *scanner) scheme(h hint, at, end int) {
	if at > 0 && wordByte[c.text[at-1]] {
		return
	}
	from := run(c.text, end, &blank)
	to := run(c.text, from, &credentialByte)
	for to > from && in(c.text[to-1], ".:") {
		to--
	}
	value := c.text[from:to]
	switch {
	case len(value) < 8 || sameByte(value) || standIn(value):
		return
	case h == hintBasic && !basic(value):
		return
	case h == hintBearer && !varied(value) && (len(value) < 20 || entropy(value) < 3):
		return
	}
	c.hide(from, to, Credential)
}

// credentialByte is token68's (RFC 9110, section 11.2), and ":" and "|", which tokens have in spite of it.
var credentialByte = classOf(func(b byte) bool { return isWord(b) || in(b, "-.~+/=:|%@") })

// basic reports whether a value is base64 of user:password.
func basic(value []byte) bool {
	var buf [192]byte
	value = bytes.TrimRight(value[:min(len(value), 256)], "=")
	value = value[:len(value)/4*4]
	n, err := base64.StdEncoding.Decode(buf[:], value)
	return err == nil && bytes.IndexByte(buf[:n], ':') >= 0 || err == nil && len(value) >= 128
}
