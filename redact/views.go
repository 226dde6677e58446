package redact

import (
	"bytes"
	"html"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolgate/toolgate/redact/detect"
	"github.com/toolgate/toolgate/redact/known"
)

// view is a text with something taken off: escapes, the ends of lines in base64, or all but the pieces of an event stream. Each of its bytes
// knows where in the text it comes from.
type view struct {
	text     []byte
	from, to []int32
}

func (v *view) add(b byte, from, to int32) {
	v.text, v.from, v.to = append(v.text, b), append(v.from, from), append(v.to, to)
}

// maxViews is how often escapes are taken off: forms of package known are one layer more.
const maxViews = 3

// views calls look with each view that differs from the text. The end of a view may be cut: an escape may not have ended.
func views(text []byte, look func(*view)) {
	if !viewed(text) {
		return
	}
	base := &view{text: text}
	if v := base.unwrapped(); v != nil {
		look(v)
	}
	for v, n := base, 0; n < maxViews; n++ {
		if v = v.unescaped(anyEscape); v == nil {
			break
		}
		look(v)
		if u := v.unwrapped(); u != nil {
			look(u)
		}
	}
	if bytes.IndexByte(text, '\\') >= 0 && bytes.ContainsAny(text, "%&") { // which may be the secret's own
		for v, n := base, 0; n < maxViews; n++ {
			if v = v.unescaped(backslash); v == nil {
				break
			}
			look(v)
		}
	}
	if v := base.pieces(); v != nil {
		look(v)
		if v = v.unescaped(backslash); v != nil {
			look(v)
		}
	}
}

// place returns where the byte stands in the text.
func (v *view) place(i int) (from, to int32) {
	if v.from == nil {
		return int32(i), int32(i + 1)
	}
	return v.from[i], v.to[i]
}

// spans appends those places of the text where a view's span comes from.
func (v *view) spans(dst []detect.Span, s detect.Span) []detect.Span {
	for i := s.Start; i < s.End; i++ {
		from, to := int(v.from[i]), int(v.to[i])
		if last := len(dst) - 1; i > s.Start && dst[last].End >= from {
			dst[last].End = max(dst[last].End, to)
		} else {
			dst = append(dst, detect.Span{Start: from, End: to, Class: s.Class})
		}
	}
	return dst
}

// KnownSpans appends the places where a text has a secret of the set: in a form that package known knows, also under up to three
// layers of escapes of JSON, URLs and HTML, as base64 in lines, and spread over the pieces of an event stream. They are sorted by
// nothing, and may overlap.
func KnownSpans(dst []detect.Span, text []byte, set *known.Set) []detect.Span {
	if !viewed(text) {
		return set.Scan(dst, text)
	}
	return viewSpans(dst, text, set)
}

// viewSpans is apart because what its function changes is on the heap.
func viewSpans(dst []detect.Span, text []byte, set *known.Set) []detect.Span {
	knownMatches(text, set, func(spans []detect.Span) { dst = append(dst, spans...) })
	return dst
}

// viewed reports whether a text may have views other than itself.
func viewed(text []byte) bool { return bytes.ContainsAny(text, "\\%&\n") }

// knownMatches calls found with the spans of each match, in order of where they begin.
func knownMatches(text []byte, set *known.Set, found func([]detect.Span)) {
	matches := set.Scan(nil, text)
	for i := range matches {
		found(matches[i : i+1])
	}
	var spans []detect.Span
	views(text, func(v *view) {
		matches = set.Scan(matches[:0], v.text)
		for _, s := range matches {
			spans = v.spans(spans[:0], s)
			found(spans)
		}
	})
}

// knownOpen is known.Set's Open, with all views of a text.
func knownOpen(text []byte, set *known.Set) int {
	open := set.Open(text)
	views(text, func(v *view) {
		if at := set.Open(v.text); at < len(v.text) {
			open = min(open, int(v.from[at]))
		}
	})
	return open
}

// The escapes that unescaped takes off.
const (
	backslash = `\`
	anyEscape = `\%&`
)

// maxEscape is the length of the longest escape, and so of what an end may have of one.
const maxEscape = 12

// unescaped returns the view without one layer of escapes, or nil if there is none. Of an escape that the end cuts off nothing is seen.
func (v *view) unescaped(kinds string) *view {
	i := bytes.IndexAny(v.text, kinds)
	if i < 0 {
		return nil
	}
	out := &view{text: slices.Grow([]byte(nil), len(v.text)), from: make([]int32, 0, len(v.text)), to: make([]int32, 0, len(v.text))}
	changed := false
	for at := 0; at < len(v.text); {
		n := 0
		var buf [utf8.UTFMax]byte
		b := buf[:0]
		switch c := v.text[at]; {
		case c == '\\' && kinds[0] == c:
			b, n = unslash(b, v.text[at:])
		case c == '%' && len(kinds) > 1:
			b, n = unpercent(b, v.text[at:])
		case c == '&' && len(kinds) > 1:
			b, n = unentity(b, v.text[at:])
		}
		if n < 0 {
			break // cut
		}
		from, to := v.place(at)
		if n == 0 {
			out.add(v.text[at], from, to)
			at++
			continue
		}
		_, to = v.place(at + n - 1)
		for _, c := range b {
			out.add(c, from, to)
		}
		at, changed = at+n, true
	}
	if !changed {
		return nil
	}
	return out
}

// unslash, unpercent and unentity append what the escape that text begins with stands for, and return its length: 0 if it is none, and -1
// if the text ends in it.
func unslash(b, text []byte) ([]byte, int) {
	if len(text) < 2 {
		return b, -1
	}
	digits := 0
	switch c := text[1]; c {
	case '"', '\\', '/', '\'':
		return append(b, c), 2
	case 'n', 'r', 't', 'b', 'f':
		return append(b, "\n\r\t\b\f"[bytes.IndexByte([]byte("nrtbf"), c)]), 2
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return b, 0
	}
	r, n := unhex(text[2:], digits)
	switch {
	case n <= 0:
		return b, n
	case digits == 2:
		return append(b, byte(r)), 4
	case utf16.IsSurrogate(r) && bytes.HasPrefix(text[6:], []byte(`\u`)):
		second, n := unhex(text[8:], digits)
		if both := utf16.DecodeRune(r, second); n > 0 && both != utf8.RuneError {
			return utf8.AppendRune(b, both), 12
		}
	}
	return utf8.AppendRune(b, r), 2 + digits
}

func unhex(text []byte, digits int) (rune, int) {
	n, err := strconv.ParseUint(string(text[:min(digits, len(text))]), 16, 32)
	if len(text) < digits && (err == nil || len(text) == 0) {
		return 0, -1
	}
	if err != nil || n > utf8.MaxRune {
		return 0, 0
	}
	return rune(n), digits
}

func unpercent(b, text []byte) ([]byte, int) {
	c, n := unhex(text[1:], 2)
	if n <= 0 {
		return b, n
	}
	return append(b, byte(c)), 3
}

func unentity(b, text []byte) ([]byte, int) {
	end := bytes.IndexByte(text[:min(len(text), maxEscape)], ';')
	if end < 0 {
		if len(text) < maxEscape && !bytes.ContainsAny(text, " \t\r\n\"'<>=/") {
			return b, -1
		}
		return b, 0
	}
	entity := string(text[:end+1])
	if plain := html.UnescapeString(entity); plain != entity && len(plain) <= utf8.UTFMax {
		return append(b, plain...), end + 1
	}
	return b, 0
}

// unwrapped returns the view without line ends, and spaces around them, that stand in the middle of base64 or hexadecimal, or nil.
func (v *view) unwrapped() *view {
	var out *view
	done := 0
	keep := func(end int) {
		for ; done < end; done++ {
			from, to := v.place(done)
			out.add(v.text[done], from, to)
		}
	}
	for i := 0; i < len(v.text); {
		k := bytes.IndexByte(v.text[i:], '\n')
		if k < 0 {
			break
		}
		i += k
		start, end := i, i+1
		for start > done && bytes.IndexByte([]byte(" \t\r\n"), v.text[start-1]) >= 0 {
			start--
		}
		for end < len(v.text) && bytes.IndexByte([]byte(" \t\r\n"), v.text[end]) >= 0 {
			end++
		}
		i = end
		if start == done || !base64Table[v.text[start-1]] || end < len(v.text) && !base64Table[v.text[end]] {
			continue
		}
		if out == nil {
			out = &view{}
		}
		keep(start)
		done = end
	}
	if out != nil {
		keep(len(v.text))
	}
	return out
}

// pieces returns the texts of an event stream that come in pieces, one behind the other, or nil.
func (v *view) pieces() *view {
	if !bytes.Contains(v.text, []byte("data:")) {
		return nil
	}
	var out *view
	for i := 0; i < len(v.text); {
		k := bytes.IndexByte(v.text[i:], ':')
		if k < 0 {
			break
		}
		i += k + 1
		name := bytes.TrimRight(v.text[:i-1], " ")
		if !bytes.HasSuffix(name, []byte(`"`)) {
			continue
		}
		name = name[:len(name)-1]
		name = name[bytes.LastIndexByte(name[max(0, len(name)-maxPieceName):], '"')+1+max(0, len(name)-maxPieceName):]
		for i < len(v.text) && v.text[i] == ' ' {
			i++
		}
		if i == len(v.text) || v.text[i] != '"' || !pieceNames[string(name)] {
			continue
		}
		if out == nil {
			out = &view{}
		}
		for i++; i < len(v.text) && v.text[i] != '"'; i++ {
			from, to := v.place(i)
			out.add(v.text[i], from, to)
			if v.text[i] == '\\' && i+1 < len(v.text) {
				i++
				from, to = v.place(i)
				out.add(v.text[i], from, to)
			}
		}
	}
	return out
}

// maxPieceName is the length of the longest of pieceNames, or more.
const maxPieceName = 32
