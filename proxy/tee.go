package proxy

import "sync/atomic"

// maxCapture is how much of a body is kept to describe it.
const maxCapture = 64 << 10

// copies bounds the bytes that tees keep at once. Nil is no bound.
type copies struct {
	max  int64
	held atomic.Int64
}

func (c *copies) take(n int) bool {
	if c == nil {
		return true
	}
	if c.held.Add(int64(n)) > c.max {
		c.held.Add(-int64(n))
		return false
	}
	return true
}

func (c *copies) give(n int) {
	if c != nil {
		c.held.Add(-int64(n))
	}
}

// tee keeps the beginning of a body that goes by, whose way it neither delays nor changes. The zero value only counts. It
// belongs to whoever reads the body.
type tee struct {
	limit int     // how much is kept at most
	of    *copies // what the memory is of
	kept  []byte
	n     int64 // bytes that went by
	short bool  // there was no memory for it, and so nothing is kept
}

// open makes the tee keep limit bytes, in memory of c. Nothing has gone by yet.
func (t *tee) open(limit int, c *copies) { t.limit, t.of = limit, c }

// write notes a piece.
func (t *tee) write(p []byte) {
	t.n += int64(len(p))
	p = p[:min(len(p), t.limit-len(t.kept))]
	if len(p) == 0 {
		return
	}
	if !t.grow(len(t.kept) + len(p)) {
		t.close()
		t.short = true
		return
	}
	t.kept = append(t.kept, p...)
}

// grow makes room for n bytes in all, and for no more than the limit.
func (t *tee) grow(n int) bool {
	had := cap(t.kept)
	if n <= had {
		return true
	}
	size := min(max(n, 2*had), t.limit)
	if !t.of.take(size - had) {
		return false
	}
	t.kept = append(make([]byte, 0, size), t.kept...)
	return true
}

// all reports whether everything that went by is kept.
func (t *tee) all() bool { return t.n == int64(len(t.kept)) }

// close gives the memory back. Of what still goes by nothing is kept.
func (t *tee) close() {
	t.of.give(cap(t.kept))
	t.kept, t.limit = nil, 0
}
