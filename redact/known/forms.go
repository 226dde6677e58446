package known

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"strings"
	"sync"
)

// form is a way to write a secret down. Most write each byte for itself; base64 writes three bytes as four characters, and begins
// at one of three places, depending on what stands before.
type form struct {
	name   string
	number uint8 // its place among forms
	table  *[256]string
	b64    *base64.Encoding
	skip   int // bytes of the secret that share their characters with what stands before
}

const maxUnit = 8 // the longest that one byte, or three in base64, is written as

// forms are all of them. The first is the secret itself.
var forms = sync.OnceValue(func() []*form {
	same := func(b byte) string { return string([]byte{b}) }
	out := []*form{{name: "raw", table: table(same)}}
	for _, f := range []struct {
		name  string
		write func(byte) string
	}{
		{"query", func(b byte) string { return url.QueryEscape(same(b)) }},
		{"query, lower", func(b byte) string { return lowerHex(url.QueryEscape(same(b))) }},
		{"component", component},
		{"component, lower", func(b byte) string { return lowerHex(component(b)) }},
		{"path", func(b byte) string { return url.PathEscape(same(b)) }},
		{"json", func(b byte) string { return jsonByte(b, `"\`) }},
		{"json, slash", func(b byte) string { return jsonByte(b, `"\/`) }},
		{"json, html", func(b byte) string {
			if strings.IndexByte("<>&'", b) >= 0 && b != '\'' {
				return fmt.Sprintf(`\u%04x`, b)
			}
			return jsonByte(b, `"\`)
		}},
		{"html", func(b byte) string { return html.EscapeString(same(b)) }},
		{"html, named", func(b byte) string { return strings.ReplaceAll(html.EscapeString(same(b)), "&#34;", "&quot;") }},
		{"html, hex", func(b byte) string {
			return strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(html.EscapeString(same(b)))
		}},
		{"hex", func(b byte) string { return fmt.Sprintf("%02x", b) }},
		{"HEX", func(b byte) string { return fmt.Sprintf("%02X", b) }},
	} {
		out = append(out, &form{name: f.name, table: table(f.write)})
	}
	for skip := range 3 {
		out = append(out, &form{name: "base64", b64: base64.RawStdEncoding, skip: skip}, &form{name: "base64url", b64: base64.RawURLEncoding, skip: skip})
	}
	for n, f := range out {
		f.number = uint8(n)
	}
	return out
})

func table(write func(byte) string) *[256]string {
	var t [256]string
	for b := range t {
		t[b] = write(byte(b))
	}
	return &t
}

// component is what encodeURIComponent of ECMAScript writes.
func component(b byte) string {
	if strings.IndexByte("!'()*", b) >= 0 {
		return string([]byte{b})
	}
	return strings.ReplaceAll(url.QueryEscape(string([]byte{b})), "+", "%20")
}

func lowerHex(s string) string {
	if len(s) == 3 {
		return strings.ToLower(s)
	}
	return s
}

// jsonByte escapes what RFC 8259, section 7, demands, and the bytes named.
func jsonByte(b byte, escaped string) string {
	switch {
	case strings.IndexByte(escaped, b) >= 0:
		return `\` + string([]byte{b})
	case b == '\n':
		return `\n`
	case b == '\r':
		return `\r`
	case b == '\t':
		return `\t`
	case b < ' ':
		return fmt.Sprintf(`\u%04x`, b)
	}
	return string([]byte{b})
}

// formsOf returns the forms that write this secret differently.
func formsOf(value string) []*form {
	var out []*form
	for _, f := range forms() {
		known := false
		for _, o := range out {
			known = known || o.same(f, value)
		}
		if !known {
			out = append(out, f)
		}
	}
	return out
}

// same reports whether two forms write a secret the same.
func (f *form) same(o *form, value string) bool {
	if f.b64 != nil && o.b64 != nil {
		if f.skip != o.skip {
			return false
		}
		var a, b [4]byte
		for at := f.skip; at+3 <= len(value); at += 3 {
			f.group(&a, value, at)
			if o.group(&b, value, at); a != b {
				return false
			}
		}
		return true
	}
	if f.b64 != nil || o.b64 != nil {
		return false
	}
	for i := range len(value) {
		if f.table[value[i]] != o.table[value[i]] {
			return false
		}
	}
	return true
}

// group writes three bytes of the secret.
func (f *form) group(dst *[4]byte, value string, at int) {
	f.b64.Encode(dst[:], []byte{value[at], value[at+1], value[at+2]})
}

// append writes the secret from a place on, until there are n bytes or it ends.
func (f *form) append(dst []byte, value string, at, n int) []byte {
	if f.b64 != nil {
		var g [4]byte
		for ; at+3 <= len(value) && len(dst) < n; at += 3 {
			f.group(&g, value, at)
			dst = append(dst, g[:]...)
		}
		return dst
	}
	for ; at < len(value) && len(dst) < n; at++ {
		dst = append(dst, f.table[value[at]]...)
	}
	return dst
}

// prefix writes the beginning of the form, up to the greatest depth.
func (f *form) prefix(dst []byte, value string) []byte {
	p := f.append(dst, value, f.skip, deepest)
	return p[:min(len(p), deepest)]
}

// length returns how long the form is.
func (f *form) length(value string) (n int) {
	if f.b64 != nil {
		return (len(value)-f.skip)/3*4 + 2*edge
	}
	for i := range len(value) {
		n += len(f.table[value[i]])
	}
	return n
}

// last returns the last place of the secret from which the form has a window's bytes.
func (f *form) last(value string) int {
	if f.b64 != nil {
		return f.skip + ((len(value)-f.skip)/3-2)*3
	}
	n, at := 0, len(value)
	for n < window {
		at--
		n += len(f.table[value[at]])
	}
	return at
}

// align moves a place to one where the form can be told.
func (f *form) align(at int) int {
	if f.b64 == nil {
		return at
	}
	return max(f.skip, at-(at-f.skip)%3)
}

// edge is how many characters of base64 on each side belong half to a secret and half to what stands beside it.
const edge = 4

// match compares the whole secret, of which the anchor's place stands at a place of the text, and returns where it begins and ends.
func (f *form) match(text []byte, at int, value string, anchor int) (from, to int, ok bool) {
	if f.b64 != nil {
		return f.match64(text, at, value, anchor)
	}
	to = at
	for i := anchor; i < len(value); i++ {
		w := f.table[value[i]]
		if len(text)-to < len(w) || string(text[to:to+len(w)]) != w {
			return 0, 0, false
		}
		to += len(w)
	}
	from = at
	for i := anchor - 1; i >= 0; i-- {
		w := f.table[value[i]]
		if from < len(w) || string(text[from-len(w):from]) != w {
			return 0, 0, false
		}
		from -= len(w)
	}
	return from, to, true
}

func (f *form) match64(text []byte, at int, value string, anchor int) (from, to int, ok bool) {
	from = at - (anchor-f.skip)/3*4
	if from < 0 {
		return 0, 0, false
	}
	to = from
	var g [4]byte
	for i := f.skip; i+3 <= len(value); i += 3 {
		f.group(&g, value, i)
		if len(text)-to < 4 || [4]byte(text[to:]) != g {
			return 0, 0, false
		}
		to += 4
	}
	for n := 0; n < edge && f.skip > 0 && from > 0 && base64Char(text[from-1]); n++ {
		from--
	}
	for n := 0; n < edge && (len(value)-f.skip)%3 > 0 && to < len(text) && base64Char(text[to]); n++ {
		to++
	}
	return from, to, true
}

func base64Char(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("+/-_=", b) >= 0
}
