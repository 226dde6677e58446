package redact

import (
	"fmt"
	"net/url"
	"strings"
)

// URL returns u without user info, and with every query value and fragment masked; names are kept. What does not
// parse becomes "[unparsed N bytes]".
func URL(u string) string {
	u = (&pass{}).held(u)
	parsed, err := url.Parse(u)
	if err != nil {
		return fmt.Sprintf("[unparsed %d bytes]", len(u))
	}
	rest, _, hasFragment := strings.Cut(u, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	var b strings.Builder
	b.Grow(len(u))
	if parsed.Opaque != "" {
		b.WriteString(parsed.Scheme + ":" + maskURL)
	} else {
		before, path := "", rest
		if i := strings.Index(rest, "//"); i >= 0 && (i == 0 || rest[i-1] == ':') {
			before, path = rest[:i+2], rest[i+2:]
			authority, tail := path, ""
			if i := strings.IndexByte(path, '/'); i >= 0 {
				authority, tail = path[:i], path[i:]
			}
			before, path = before+authority[strings.LastIndexByte(authority, '@')+1:], tail
		}
		b.WriteString(before)
		b.WriteString(urlPath(path))
	}
	if hasQuery {
		b.WriteByte('?')
		urlQuery(&b, query)
	}
	if hasFragment {
		b.WriteString("#" + maskURL)
	}
	return neutralise(b.String())
}

// urlPath masks the segments that hold tokens or, where a scheme lost a slash, user info, and what stands behind an encoded "?" or "#": a
// client that encodes a URL once too often sends its query and fragment in the path.
func urlPath(path string) string {
	if i := encodedMark(path); i >= 0 {
		return urlPath(path[:i]) + maskURL
	}
	if !strings.ContainsAny(path, "@") && !strings.Contains(path, "eyJ") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if at := strings.IndexByte(s, '@'); at >= 0 && strings.Contains(s[:at], ":") {
			segments[i] = maskURL
		} else {
			segments[i] = (&pass{}).tokens(s)
		}
	}
	return strings.Join(segments, "/")
}

// encodedMark returns the index of the first "%23" or "%3F", however often its percent sign was encoded, or -1.
func encodedMark(path string) int {
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			continue
		}
		rest := path[i+1:]
		for strings.HasPrefix(rest, "25") {
			rest = rest[2:]
		}
		if strings.HasPrefix(rest, "23") || hasPrefixFold(rest, "3f") {
			return i
		}
	}
	return -1
}

// urlQuery keeps names. A part without "=" is a value.
func urlQuery(b *strings.Builder, query string) {
	for len(query) > 0 {
		end := strings.IndexAny(query, "&;")
		part, sep := query, ""
		if end >= 0 {
			part, sep = query[:end], query[end:end+1]
		}
		if name, value, ok := strings.Cut(part, "="); ok && plainName(name) && Text(name) == name {
			b.WriteString(name + "=")
			if value != "" {
				b.WriteString(maskURL)
			}
		} else if part != "" {
			b.WriteString(maskURL)
		}
		b.WriteString(sep)
		query = query[len(part)+len(sep):]
	}
}

// plainName tells a parameter's name from data in its place.
func plainName(name string) bool {
	if name == "" || len(name) > 64 || strings.Contains(name, "eyJ") {
		return false
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !alnum(c) && !strings.ContainsRune("_-.~$[]%+:@!*", rune(c)) {
			return false
		}
	}
	return true
}

func alnum(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' }
