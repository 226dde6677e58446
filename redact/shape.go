package redact

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxShape      = 64 // paths
	maxShapeDepth = 16 // arrays and objects; deeper ones are named and not entered
)

// Shape returns the key paths of a JSON payload with type and length bucket, sorted, at most 64 of them, for example
// "order.id: string(1-16)". A key that is not in known (normalised as for Rules.Fields) is written "*", since keys can
// be data; one that is takes the spelling of known. Elements of an array share one path: "items[]". The root is "$"
// where it is not an object. Nil when b is not JSON or larger than Body would read.
func Shape(b []byte, known []string) []string {
	if len(b) == 0 || len(b) > maxBody {
		return nil
	}
	s := &shape{
		dec:   jsontext.NewDecoder(bytes.NewBuffer(b), jsonOptions, jsontext.AllowInvalidUTF8(true)),
		known: make(map[string]string, len(known)),
		paths: map[string]bool{},
	}
	for _, k := range known {
		s.known[normalise(k)] = neutralise(k)
	}
	if s.value("", 0) != nil || len(bytes.Trim(b[s.dec.InputOffset():], " \t\r\n")) > 0 {
		return nil
	}
	paths := slices.Sorted(maps.Keys(s.paths))
	return paths[:min(len(paths), maxShape)]
}

type shape struct {
	dec   *jsontext.Decoder
	known map[string]string // spelling by normalised name
	paths map[string]bool
}

// add bounds the set well above what is returned, so that which paths are returned seldom depends on their order in
// the payload, and memory never on its size.
func (s *shape) add(path, kind string) {
	if len(s.paths) < 16*maxShape {
		s.paths[cmp.Or(path, "$")+": "+kind] = true
	}
}

func (s *shape) value(path string, depth int) error {
	kind := s.dec.PeekKind()
	switch kind {
	case '{', '[':
		if depth == maxShapeDepth {
			s.add(path, map[jsontext.Kind]string{'{': "object", '[': "array"}[kind])
			return s.dec.SkipValue()
		}
		return s.container(path, depth)
	}
	tok, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '"':
		s.add(path, "string("+bucket(len(tok.String()))+")")
	case '0':
		s.add(path, "number")
	case 't', 'f':
		s.add(path, "boolean")
	default:
		s.add(path, "null")
	}
	return nil
}

func (s *shape) container(path string, depth int) error {
	open, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	object, n := open.Kind() == '{', 0
	for ; s.dec.PeekKind() != '}' && s.dec.PeekKind() != ']'; n++ {
		below := cmp.Or(path, "$") + "[]"
		if object {
			key, err := s.dec.ReadToken()
			if err != nil {
				return err
			}
			below = s.key(key.String())
			if path != "" {
				below = path + "." + below
			}
		}
		if err := s.value(below, depth+1); err != nil {
			return err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	switch {
	case !object:
		s.add(path, "array("+bucket(n)+")")
	case n == 0:
		s.add(path, "object(0)")
	}
	return nil
}

func (s *shape) key(name string) string {
	if len(name) <= maxName {
		if k, ok := s.known[normalise(name)]; ok {
			return k
		}
	}
	return "*"
}

// bucket hides the exact length, which can tell a value.
func bucket(n int) string {
	switch {
	case n == 0:
		return "0"
	case n <= 16:
		return "1-16"
	case n <= 64:
		return "17-64"
	case n <= 256:
		return "65-256"
	case n <= 1024:
		return "257-1024"
	case n <= 16384:
		return "1025-16384"
	}
	return "16385-"
}
