package redact

import (
	"bytes"
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
		names: map[string]string{},
		paths: map[string]bool{},
	}
	for _, k := range known {
		s.known[normalise(k)] = neutralise(k)
	}
	if s.value(0) != nil || len(bytes.Trim(b[s.dec.InputOffset():], " \t\r\n")) > 0 {
		return nil
	}
	paths := slices.Sorted(maps.Keys(s.paths))
	return paths[:min(len(paths), maxShape)]
}

// shape keeps the path of the value that is read in one buffer, and reads tokens where they stand: a call has hundreds.
type shape struct {
	dec   *jsontext.Decoder
	known map[string]string // spelling by normalised name
	names map[string]string // of keys as they stand in the payload, escapes and all
	paths map[string]bool
	path  []byte
	line  []byte // scratch of add
	text  []byte // scratch of plain
}

// add bounds the set well above what is returned, so that which paths are returned seldom depends on their order in
// the payload, and memory never on its size.
func (s *shape) add(kind string, size ...string) {
	s.line = append(append(append(s.line[:0], s.at()...), ": "...), kind...)
	if len(size) > 0 {
		s.line = append(append(append(s.line, '('), size[0]...), ')')
	}
	if !s.paths[string(s.line)] && len(s.paths) < 16*maxShape {
		s.paths[string(s.line)] = true
	}
}

func (s *shape) at() []byte {
	if len(s.path) == 0 {
		return []byte("$")
	}
	return s.path
}

func (s *shape) value(depth int) error {
	switch kind := s.dec.PeekKind(); kind {
	case '{', '[':
		if depth == maxShapeDepth {
			s.add(map[jsontext.Kind]string{'{': "object", '[': "array"}[kind])
			return s.dec.SkipValue()
		}
		return s.container(kind == '{', depth)
	}
	v, err := s.dec.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case '"':
		s.add("string", bucket(len(s.plain(v))))
	case '0':
		s.add("number")
	case 't', 'f':
		s.add("boolean")
	default:
		s.add("null")
	}
	return nil
}

func (s *shape) container(object bool, depth int) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	n, here := 0, len(s.path)
	for ; s.dec.PeekKind() != '}' && s.dec.PeekKind() != ']'; n++ {
		if object {
			key, err := s.dec.ReadValue()
			if err != nil {
				return err
			}
			if here > 0 {
				s.path = append(s.path, '.')
			}
			s.path = append(s.path, s.key(key)...)
		} else {
			if here == 0 {
				s.path = append(s.path, '$')
			}
			s.path = append(s.path, "[]"...)
		}
		err := s.value(depth + 1)
		s.path = s.path[:here]
		if err != nil {
			return err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	switch {
	case !object:
		s.add("array", bucket(n))
	case n == 0:
		s.add("object", "0")
	}
	return nil
}

// maxNames bounds the keys that are remembered for one payload.
const maxNames = 256

// key returns how a key is written, of which quoted is the JSON string.
func (s *shape) key(quoted jsontext.Value) string {
	if len(s.known) == 0 {
		return "*"
	}
	if name, ok := s.names[string(quoted)]; ok {
		return name
	}
	name := "*"
	if plain := s.plain(quoted); len(plain) <= maxName {
		if k, ok := s.known[normalise(string(plain))]; ok {
			name = k
		}
	}
	if len(s.names) < maxNames {
		s.names[string(quoted)] = name
	}
	return name
}

// plain returns what a JSON string says, until the next call.
func (s *shape) plain(quoted jsontext.Value) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	s.text, _ = jsontext.AppendUnquote(s.text[:0], quoted)
	return s.text
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
