package redact

import (
	"bytes"
	"io"
	"slices"

	"github.com/toolgate/toolgate/redact/known"
)

// MaskKnown returns a reader that gives what r gives with every form of the set's secrets replaced by a mask of the same length, so that
// a length that was announced stays true. It finds one however the reads split it. What may begin a secret, by four
// bytes or more, waits for what follows; fewer go out at once, since a message must not wait for the next one because it ends in a
// secret's first letter, and if the rest follows, that is masked.
func MaskKnown(r io.Reader, set *known.Set) io.Reader {
	if set.Len() == 0 {
		return r
	}
	return &knownReader{in: r, set: set}
}

// beginning is how much that went out is looked at again: more than is let out of what begins a secret.
const beginning = 32

type knownReader struct {
	in    io.Reader
	set   *known.Set
	buf   []byte // as it came: what went out last, and what is held back
	sent  int    // how much of buf went out
	out   []byte
	ready []byte
	err   error
}

func (m *knownReader) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		m.fill(len(p))
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// fill reads once and decides which bytes can go.
func (m *knownReader) fill(n int) {
	if drop := m.sent - beginning; drop > 0 {
		m.buf = append(m.buf[:0], m.buf[drop:]...)
		m.sent = beginning
	}
	from := len(m.buf)
	m.buf = slices.Grow(m.buf, n)[:from+n]
	k, err := m.in.Read(m.buf[from:])
	m.buf, m.err = m.buf[:from+k], err
	spans := m.set.Scan(nil, m.buf)
	open := len(m.buf)
	if err == nil {
		open = max(m.set.Open(m.buf), m.sent)
	}
	for _, s := range spans { // what ends behind open goes out whole, so that its end need not be found again
		if s.Start < open {
			open = max(open, s.End)
		}
	}
	m.out = append(m.out[:0], m.buf[m.sent:open]...)
	for _, s := range spans {
		start, end := max(s.Start, m.sent), min(s.End, open)
		if start < end {
			copy(m.out[start-m.sent:end-m.sent], maskOf(s.End - s.Start)[start-s.Start:])
		}
	}
	m.ready, m.sent = m.out, open
}

// maskOf returns the placeholder, cut or filled to n bytes.
func maskOf(n int) []byte {
	m := bytes.Repeat([]byte("*"), n)
	copy(m, placeholder)
	return m
}
