package broker

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonStep is one step of a path into a JSON value: a name of an object, or an entry of a list.
type jsonStep struct {
	name  string
	list  bool
	entry int64 // of a list; -1: every one
}

// parseJSONPath reads a path such as $.auth.keys[0].value or $.items[*].key.
func parseJSONPath(text string) ([]jsonStep, error) {
	wrong := fmt.Errorf("json path %q is not of the form $.name.name[0].name or $.name[*]", text)
	rest, ok := strings.CutPrefix(text, "$")
	if !ok || rest == "" {
		return nil, wrong
	}
	var path []jsonStep
	for rest != "" {
		end := strings.IndexAny(rest[1:], ".[") + 1
		if end == 0 {
			end = len(rest)
		}
		step := rest[:end]
		rest = rest[end:]
		switch inner, closed := strings.CutSuffix(step[1:], "]"); {
		case step[0] == '.' && isJSONName(step[1:]):
			path = append(path, jsonStep{name: step[1:]})
		case step == "[*]":
			path = append(path, jsonStep{list: true, entry: -1})
		case step[0] == '[' && closed:
			n, err := strconv.ParseUint(inner, 10, 31)
			if err != nil || strconv.FormatUint(n, 10) != inner {
				return nil, wrong
			}
			path = append(path, jsonStep{list: true, entry: int64(n)})
		default:
			return nil, wrong
		}
	}
	return path, nil
}

func isJSONName(s string) bool {
	for _, c := range []byte(s) {
		if !unreserved(c) || c == '.' || c == '~' {
			return false
		}
	}
	return s != ""
}

// replaceJSON replaces placeholders in the strings of body that their surfaces name. Every other byte stays as it is. A name used
// twice in an object, bytes that are not UTF-8 and anything after the value are refused, since readers differ in what they make
// of those. The reason is PlaceholderLeft where a placeholder stands in another string or in a name.
func (p *replacing) replaceJSON(body []byte) ([]byte, Reason) {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	var out []byte
	done := 0
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, PlaceholderBody
		}
		if tok.Kind() != '"' {
			continue
		}
		text := tok.String()
		replaced := text
		if !atName(dec) {
			for i := range p.list {
				if r := &p.list[i]; r.takesJSON(dec) {
					replaced = strings.ReplaceAll(replaced, r.text, r.value.Reveal())
				}
			}
		}
		if p.in(replaced) {
			return nil, PlaceholderLeft
		}
		if replaced == text {
			continue
		}
		end := int(dec.InputOffset())
		start := stringStart(body, end)
		out = append(out, body[done:start]...)
		if out, err = jsontext.AppendQuote(out, replaced); err != nil {
			return nil, Internal
		}
		done = end
	}
	if dec.StackDepth() != 0 || values(dec) != 1 {
		return nil, PlaceholderBody
	}
	return append(out, body[done:]...), ""
}

// values returns how many values were read on the top level.
func values(dec *jsontext.Decoder) int64 {
	_, n := dec.StackIndex(0)
	return n
}

// atName reports whether the string just read is a name of an object.
func atName(dec *jsontext.Decoder) bool {
	kind, n := dec.StackIndex(dec.StackDepth())
	return kind == '{' && n%2 == 1
}

// stringStart returns where the string begins that ends at end: after the last quote before it that no backslash escapes.
func stringStart(body []byte, end int) int {
	for i := end - 2; ; i-- {
		if body[i] != '"' {
			continue
		}
		slashes := 0
		for i-1-slashes >= 0 && body[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// takesJSON reports whether one of the surfaces is the string that was just read.
func (r *replacement) takesJSON(dec *jsontext.Decoder) bool {
	for _, s := range r.surfaces {
		if s.kind == inJSONSurface && len(s.path) == dec.StackDepth() && s.matches(dec) {
			return true
		}
	}
	return false
}

func (s *Surface) matches(dec *jsontext.Decoder) bool {
	i := 0
	for token := range dec.StackPointer().Tokens() {
		if i == len(s.path) {
			return false
		}
		step := s.path[i]
		i++
		kind, n := dec.StackIndex(i)
		switch {
		case step.list != (kind == '['):
			return false
		case step.list && step.entry >= 0 && n-1 != step.entry:
			return false
		case !step.list && token != step.name:
			return false
		}
	}
	return i == len(s.path)
}
