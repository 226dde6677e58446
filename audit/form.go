package audit

import (
	"bytes"
	"unicode/utf8"
)

// odd tells what of a line, which is valid JSON, a sidecar would not have written: two readers could read it in two ways. "" is nothing.
func odd(line []byte) string {
	if !utf8.Valid(line) {
		return "bytes that are not UTF-8"
	}
	var last []byte // key of the line's own object
	depth := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ', '\t', '\r':
			return "white space"
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := i + 1
			for ; line[end] != '"'; end++ {
				if line[end] == '\\' {
					end++
				}
			}
			if key := line[i+1 : end]; depth == 1 && end+1 < len(line) && line[end+1] == ':' {
				if why := oddKey(last, key); why != "" {
					return why
				}
				last = key
			}
			i = end
		}
	}
	return ""
}

// oddKey judges a key that comes after another. Ours are lower case, digits and underlines.
func oddKey(last, key []byte) string {
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return "a key that no record has"
		}
	}
	switch {
	case last == nil:
		return ""
	case bytes.Equal(last, key):
		return "a key that is there twice"
	case bytes.Compare(last, key) > 0:
		return "keys that are not in their order"
	}
	return ""
}
