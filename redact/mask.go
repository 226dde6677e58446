package redact

import (
	"bytes"
	"io"
)

// Mask returns a reader that gives what r gives with every occurrence of the secret replaced by a mask of the same length, so that
// a length that was announced stays true. It finds an occurrence however the reads split it. It holds bytes back only where
// eight or more of them begin the secret; fewer go out at once, since a message must not wait for the next one because it
// ends in the secret's first letter, and if the rest of the secret follows, that is masked.
// A secret shorter than 8 bytes is not masked: it would destroy what it occurs in by chance.
func Mask(r io.Reader, s Secret) io.Reader {
	secret := []byte(s.Reveal())
	if len(secret) < minMasked {
		return r
	}
	return &maskReader{in: r, secret: secret}
}

// minMasked is the length in bytes below which a value is no secret worth looking for.
const minMasked = 8

// maskOf returns the placeholder, cut or filled to n bytes.
func maskOf(n int) []byte {
	m := bytes.Repeat([]byte("*"), n)
	copy(m, placeholder)
	return m
}

// maskReader carries over what may begin the secret: the end of what was read, of which the first sent bytes have been given
// out already.
type maskReader struct {
	in     io.Reader
	secret []byte
	mask   []byte // made when it is needed, which is hardly ever
	carry  []byte
	sent   int
	ready  []byte // to be given out
	err    error
	buf    []byte
}

func (m *maskReader) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if len(m.carry) == 0 {
			if n := m.through(p); n > 0 || m.err == nil && len(m.carry) == 0 {
				return n, m.err
			}
			continue
		}
		m.fill(len(p))
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// through reads once into p itself, since nothing is carried over, and returns how much of it can go.
func (m *maskReader) through(p []byte) int {
	n, err := m.in.Read(p)
	m.err = err
	m.cover(p[:n])
	begun := tail(p[:n], m.secret)
	held := begun
	if begun < minMasked || err != nil {
		held = 0
	}
	m.carry, m.sent = append(m.carry, p[n-begun:n]...), begun-held
	return n - held
}

// cover puts the mask over every occurrence in b.
func (m *maskReader) cover(b []byte) {
	for at := 0; ; {
		i := bytes.Index(b[at:], m.secret)
		if i < 0 {
			return
		}
		if m.mask == nil {
			m.mask = maskOf(len(m.secret))
		}
		at += i
		copy(b[at:], m.mask)
		at += len(m.secret)
	}
}

// fill reads once behind what is carried over, and decides which bytes can go.
func (m *maskReader) fill(n int) {
	if cap(m.buf) < len(m.carry)+n {
		m.buf = make([]byte, len(m.carry)+n)
	}
	b := m.buf[:len(m.carry)+n]
	copy(b, m.carry)
	k, err := m.in.Read(b[len(m.carry):])
	b = b[:len(m.carry)+k]
	m.cover(b)
	from := m.sent
	begun := tail(b, m.secret)
	m.carry = append(m.carry[:0], b[len(b)-begun:]...)
	held := begun
	if begun < minMasked || err != nil {
		held = 0
	}
	m.sent = max(begun-held, from-(len(b)-begun))
	m.ready, m.err = b[min(from, len(b)-held):len(b)-held], err
}

// tail returns the length of the longest proper prefix of secret that b ends with.
func tail(b, secret []byte) int {
	for n := min(len(b), len(secret)-1); n > 0; n-- {
		if b[len(b)-n] == secret[0] && bytes.HasSuffix(b, secret[:n]) {
			return n
		}
	}
	return 0
}
