package redact

import (
	"fmt"
	"io"
)

// shortStrings gives a JSON text in which no string or number is longer than maxLine: a longer one is replaced by what stands for
// it, so that a decoder need not hold it.
type shortStrings struct {
	in     io.Reader
	pass   *pass
	ready  []byte
	raw    [2 << 10]byte
	word   []byte // the string under way, with its quote
	within bool
	escape bool
	bare   int // bytes since the last that ends a number or a space
	hash   *hasher
	n      int
	err    error
}

func (s *shortStrings) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			if s.hash != nil {
				hashers.Put(s.hash)
				s.hash = nil
			}
			return 0, s.err
		}
		s.fill()
	}
	n := copy(p, s.ready)
	s.ready = append(s.ready[:0], s.ready[n:]...)
	return n, nil
}

func (s *shortStrings) fill() {
	n, err := s.in.Read(s.raw[:])
	s.err = err
	for _, c := range s.raw[:n] {
		s.byte(c)
		if s.bare > maxLine {
			s.err = errTrailing
			break
		}
	}
	if s.err != nil && s.within && s.hash == nil {
		s.ready = append(s.ready, s.word...) // what is cut does not parse
		s.word = s.word[:0]
	}
}

func (s *shortStrings) byte(c byte) {
	if !s.within {
		if c == '"' {
			s.within, s.escape, s.bare = true, false, 0
			s.word = append(s.word[:0], c)
			return
		}
		if s.bare++; c == ',' || c == ':' || c == '{' || c == '[' {
			s.bare = 0
		}
		s.ready = append(s.ready, c)
		return
	}
	if len(s.word) >= maxLine {
		if s.hash == nil {
			s.hash, s.n = newHasher(), -1 // without its quote
			s.hash.mac.Write(s.word[1:])
		} else {
			s.hash.mac.Write(s.word)
		}
		s.n += len(s.word)
		s.word = s.word[:0]
	}
	if c != '"' || s.escape {
		s.escape = c == '\\' && !s.escape
		s.word = append(s.word, c)
		return
	}
	s.within = false
	if s.hash == nil {
		s.ready = append(append(s.ready, s.word...), c)
		return
	}
	s.hash.mac.Write(s.word)
	s.ready = fmt.Appendf(s.ready, `"[unparsed %d bytes hmac=%s]"`, s.n+len(s.word), s.hash.sum12())
	hashers.Put(s.hash)
	s.hash, s.pass.failed = nil, true
}
