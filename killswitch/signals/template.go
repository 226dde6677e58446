package signals

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Template is a text with at most one placeholder, such as "user:{email}" or "{session.id}": of a simple subject an identifier's
// name, of a complex one a member's name, a dot and an identifier's name. The zero value is not used.
//
// One placeholder alone, so that no two subjects can yield one text. It is taken apart before any event is seen, so that braces in a
// value mean nothing.
type Template struct {
	before, after string
	member, name  string // name is empty when there is no placeholder
}

// ParseTemplate reads a template. The error says what is wrong with it.
func ParseTemplate(s string) (Template, error) {
	before, rest, found := strings.Cut(s, "{")
	inside, after, closed := strings.Cut(rest, "}")
	switch {
	case s == "":
		return Template{}, errors.New("it is empty")
	case !found && !strings.Contains(s, "}"):
		if !isPlain(s) {
			return Template{}, fmt.Errorf("it is longer than %d bytes, not printable or has spaces around it", maxValue)
		}
		return Template{before: s}, nil
	case !closed || strings.ContainsAny(before+after, "{}"):
		return Template{}, errors.New("it does not have one placeholder in one pair of braces")
	case !isPlain("x" + before + after + "x"):
		return Template{}, fmt.Errorf("it is longer than %d bytes or not printable", maxValue)
	}
	member, name, dotted := strings.Cut(inside, ".")
	if !dotted {
		member, name = "", inside
	}
	if dotted && !slices.Contains(memberNames, member) {
		return Template{}, fmt.Errorf("%q is not one of %s", member, strings.Join(memberNames, ", "))
	}
	if !slices.Contains(Placeholders, name) {
		return Template{}, fmt.Errorf("%q is not one of %s", name, strings.Join(Placeholders, ", "))
	}
	return Template{before, after, member, name}, nil
}

func (t Template) used() bool { return t != Template{} }

// fill returns the values for a subject: one, or one for each alias that fits. None: the subject does not have what it takes.
func (t Template) fill(s subject) []string {
	if t.name == "" {
		return []string{t.before}
	}
	var out []string
	for _, id := range s[t.member] {
		if id.name != t.name {
			continue
		}
		if v := t.before + id.value + t.after; isPlain(v) && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
