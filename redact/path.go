package redact

import (
	"fmt"
	"strconv"
	"strings"
)

// path is a subset of RFC 9535: names, indexes, "*" and "..".
type path []step

type step struct {
	name string // of a member, or an element's index in decimal; unused if any
	any  bool   // "*"
	deep bool   // "..": at any depth below
}

// parsePath reads $.a, $['a'], $["a"], $[0], $.*, $[*] and $..a. The error says where it is no path.
func parsePath(s string) (path, error) {
	var p path
	bad := func(rest string) error {
		return fmt.Errorf("%q is no path: names, indexes, \"*\" and \"..\" are understood behind $, not %q", s, rest)
	}
	rest := strings.TrimPrefix(s, "$")
	for rest != "" {
		var st step
		bracket := rest[0] == '['
		switch {
		case strings.HasPrefix(rest, ".."):
			st.deep, rest = true, rest[2:]
			bracket = strings.HasPrefix(rest, "[")
		case rest[0] == '.':
			rest = rest[1:]
		case !bracket:
			return nil, bad(rest)
		}
		before, ok := rest, false
		if bracket {
			st.name, st.any, rest, ok = bracketed(rest)
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			st.name, rest = rest[:end], rest[end:]
			st.any, ok = st.name == "*", st.name != "" && !strings.ContainsAny(st.name, "]'\"?@,:() ")
		}
		if !ok {
			return nil, bad(before)
		}
		p = append(p, st)
	}
	if len(p) == 0 {
		return nil, bad(s)
	}
	return p, nil
}

// bracketed reads ['name'], [12] or [*].
func bracketed(s string) (name string, wild bool, rest string, ok bool) {
	if len(s) > 2 && (s[1] == '\'' || s[1] == '"') {
		end := strings.Index(s[2:], s[1:2]+"]")
		if end < 0 || strings.ContainsAny(s[2:2+end], `\'"`) {
			return "", false, s, false
		}
		return s[2 : 2+end], false, s[2+end+2:], true
	}
	name, rest, ok = strings.Cut(s[1:], "]")
	if name == "*" {
		return name, true, rest, ok
	}
	if n, err := strconv.Atoi(name); err != nil || n < 0 || strconv.Itoa(n) != name {
		return "", false, s, false
	}
	return name, false, rest, ok
}

// match reports whether the path leads to the place.
func (p path) match(place []string) bool {
	if len(p) == 0 {
		return len(place) == 0
	}
	if len(place) == 0 {
		return false
	}
	if (p[0].any || p[0].name == place[0]) && p[1:].match(place[1:]) {
		return true
	}
	return p[0].deep && p.match(place[1:])
}

// atPath reports whether a path leads to the value that comes.
func (w *walk) atPath() bool {
	for _, p := range w.s.paths {
		if p.match(w.place) {
			return true
		}
	}
	return false
}
