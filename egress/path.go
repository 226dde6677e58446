package egress

import (
	"strings"
	"unicode/utf8"
)

// PathPattern matches an escaped request path: literal, or with "*" for one segment, or a trailing "/*" or "/**" for
// one or more segments, of which the first is not empty ("/v1/*" covers neither "/v1" nor "/v1/"). Letters and escapes
// are compared byte for byte. It never matches a path that servers read in more than one way: one with dot segments,
// empty segments, a backslash, a semicolon, or an escape for a dot, slash, backslash, semicolon, percent sign, control
// character or invalid UTF-8. The zero value matches nothing.
type PathPattern struct{ text string }

// UnmarshalText parses a path pattern, which must begin with "/". Errors are of type *PatternError.
func (p *PathPattern) UnmarshalText(b []byte) error {
	text := string(b)
	if reason := checkPathPattern(text); reason != "" {
		return &PatternError{Entry: text, Reason: reason}
	}
	p.text = text
	return nil
}

// String returns the pattern as written.
func (p PathPattern) String() string { return p.text }

func checkPathPattern(text string) string {
	if text == "" || text[0] != '/' {
		return `a path pattern begins with "/"`
	}
	if !plainPath(text) {
		return "a path pattern has no dot or empty segment, no query, no space, and no escape that could hide one"
	}
	rest := text[1:]
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "**" && more:
			return `"**" stands at the end only`
		case segment != "*" && segment != "**" && strings.Contains(segment, "*"):
			return "a wildcard is a whole segment"
		}
	}
	return ""
}

// match reports whether the pattern covers path, which must be plain (plainPath).
func (p PathPattern) match(path string) bool {
	if p.text == "" || path == "" {
		return false
	}
	pattern, path := p.text[1:], path[1:]
	for {
		want, wantRest, wantMore := strings.Cut(pattern, "/")
		got, gotRest, gotMore := strings.Cut(path, "/")
		switch {
		case want == "**", want == "*" && !wantMore:
			return got != ""
		case want == "*":
			if got == "" {
				return false
			}
		case want != got:
			return false
		}
		if !wantMore || !gotMore {
			return wantMore == gotMore
		}
		pattern, path = wantRest, gotRest
	}
}

// plainPath reports whether every server reads an escaped path in the same way, so that the path which was judged is
// the path which is served. A trailing slash is plain; it makes another path.
func plainPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	start := 1 // of the current segment
	for i := 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			segment := path[start:i]
			if segment == "." || segment == ".." || segment == "" && i < len(path) {
				return false
			}
			start = i + 1
			continue
		}
		switch c := path[i]; {
		case c == '%':
			n := plainEscape(path[i:])
			if n == 0 {
				return false
			}
			i += n - 1
		case c <= ' ' || c >= 0x7f || c == '\\' || c == ';' || c == '?' || c == '#':
			return false
		}
	}
	return true
}

// plainEscape returns the length of the escapes at the beginning of s that make one character, or 0 if they should not
// stand in a path. Overlong UTF-8 ("%c0%af") is a slash to lenient decoders.
func plainEscape(s string) int {
	var char [utf8.UTFMax]byte
	n := 0
	for n < len(char) && len(s) >= 3*n+3 && s[3*n] == '%' {
		hi, lo := unhex(s[3*n+1]), unhex(s[3*n+2])
		if hi > 15 || lo > 15 {
			break
		}
		char[n] = hi<<4 | lo
		n++
	}
	r, size := utf8.DecodeRune(char[:n])
	switch {
	case r == utf8.RuneError && size <= 1, r < ' ', r == 0x7f:
		return 0
	case r == '.', r == '/', r == '\\', r == '%', r == ';':
		return 0
	}
	return 3 * size
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
