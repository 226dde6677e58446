package redact

import (
	"bytes"
	"io"
	"slices"

	"github.com/toolgate/toolgate/redact/detect"
	"github.com/toolgate/toolgate/redact/known"
)

// MaskKnown returns a reader that gives what r gives with every form of the set's secrets, as KnownSpans finds them, replaced by a mask of
// the same length, so that a length that was announced stays true. It finds one however the reads split it. What may begin a secret, by four
// bytes or more, waits for what follows; fewer go out at once, since a message must not wait for the next one because it ends in a
// secret's first letter, and if the rest follows, that is masked.
func MaskKnown(r io.Reader, set *known.Set) io.Reader {
	if set.Len() == 0 {
		return r
	}
	return &knownReader{in: r, mask: KnownMask{set: set}}
}

const (
	// beginning is how much that went out is looked at again: more than is let out of what begins a secret, however it is escaped.
	beginning = 128
	// beginningEvents is the same for a stream of events, where other members of some events stand between.
	beginningEvents = 4 << 10
	// maxKnownHeld bounds what is held back besides twice the longest form.
	maxKnownHeld = 32 << 10
	// seldom is how many times more than what has come may be held back before it is looked at again: whoever knows the secret could have
	// kilobytes of its beginning looked at for each byte that follows.
	seldom = 64
)

// KnownMask is MaskKnown for whoever is handed pieces and cannot read. The zero value masks nothing.
type KnownMask struct {
	set   *known.Set
	buf   []byte // as it came: what went out last, and what is held back
	sent  int    // how much of buf went out
	seen  int    // how much of buf was looked at
	out   []byte
	spans []detect.Span
	whole []detect.Span // from the first to the last of a match's
}

// NewKnownMask returns a KnownMask for the secrets of set.
func NewKnownMask(set *known.Set) *KnownMask { return &KnownMask{set: set} }

// Feed takes the next piece and returns what can go out, which is good until the next call. With all, nothing is held back: what
// has begun a secret goes out, and only the rest of it is masked should it follow.
func (m *KnownMask) Feed(p []byte, all bool) []byte {
	m.drop()
	m.buf = append(m.buf, p...)
	return m.step(all)
}

// drop forgets what need not be looked at again.
func (m *KnownMask) drop() {
	keep := beginning
	if bytes.Contains(m.buf, []byte("data:")) {
		keep = beginningEvents
	}
	if drop := m.sent - keep; drop > 0 {
		m.buf = append(m.buf[:0], m.buf[drop:]...)
		m.sent, m.seen = keep, m.seen-drop
	}
}

// step decides which bytes of buf can go.
func (m *KnownMask) step(all bool) []byte {
	if m.sent == len(m.buf) { // as at the end of most bodies
		return nil
	}
	if held := m.seen - m.sent; !all && len(m.buf)-m.seen <= held/seldom {
		return nil
	}
	m.seen = len(m.buf)
	m.spans, m.whole = m.spans[:0], m.whole[:0]
	knownMatches(m.buf, m.set, func(spans []detect.Span) {
		m.spans = append(m.spans, spans...)
		m.whole = append(m.whole, detect.Span{Start: spans[0].Start, End: spans[len(spans)-1].End})
	})
	slices.SortFunc(m.whole, func(a, b detect.Span) int { return a.Start - b.Start })
	open := len(m.buf)
	if !all {
		open = max(knownOpen(m.buf, m.set), m.sent)
		if most := 2*m.set.Longest() + maxKnownHeld; len(m.buf)-open > most {
			open = len(m.buf) - most
		}
	}
	for _, s := range m.whole { // what ends behind open goes out whole, so that its end need not be found again
		if s.Start < open {
			open = max(open, s.End)
		}
	}
	m.out = append(m.out[:0], m.buf[m.sent:open]...)
	for _, s := range m.spans {
		start, end := max(s.Start, m.sent), min(s.End, open)
		if start < end {
			copy(m.out[start-m.sent:end-m.sent], maskOf(s.End - s.Start)[start-s.Start:])
		}
	}
	m.sent = open
	return m.out
}

type knownReader struct {
	in    io.Reader
	mask  KnownMask
	ready []byte
	err   error
}

// Read uses p for what comes, so that a short body costs its own length and no more. Nothing of that stays in p but what is returned.
func (r *knownReader) Read(p []byte) (int, error) {
	came := 0
	for len(r.ready) == 0 {
		if r.err != nil {
			clear(p[:came])
			return 0, r.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		var n int
		n, r.err = r.in.Read(p)
		r.ready, came = r.mask.Feed(p[:n], r.err != nil), max(came, n)
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	clear(p[n:max(n, came)])
	return n, nil
}

// maskOf returns the placeholder, cut or filled to n bytes.
func maskOf(n int) []byte {
	m := bytes.Repeat([]byte("*"), n)
	copy(m, placeholder)
	return m
}
