// Package prefix keeps the beginnings of bodies that go by, for logs, records and captures, within a bound for each and one for all. It neither
// delays nor changes what goes by. What there is no memory for is not kept in part, so that the memory is there for the next.
//
// Limits: what it keeps is raw; whoever shows it redacts it. A Budget counts memory that Buffers have, and not copies that their users make.
//
// The proxy and fixtures may import it; no gate needs it.
package prefix

import "sync/atomic"

// Budget bounds what the Buffers of a purpose hold at once, by the memory they have rather than by what lies in it. A nil Budget is no bound.
// It is safe for concurrent use.
type Budget struct {
	Max  int64 // bytes; set before use
	held atomic.Int64
}

// Held returns how many bytes are held.
func (b *Budget) Held() int64 { return b.held.Load() }

func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	if b.held.Add(int64(n)) > b.Max {
		b.held.Add(-int64(n))
		return false
	}
	return true
}

func (b *Budget) give(n int) {
	if b != nil {
		b.held.Add(-int64(n))
	}
}

// Buffer keeps the beginning of one body. The zero value only counts. It belongs to whoever reads the body: it is not safe for concurrent
// use, and after a copy only one of the two is to be used.
type Buffer struct {
	limit int
	of    *Budget
	kept  []byte
	n     int64
	short bool
}

// Open makes the Buffer keep limit bytes at most, in memory of b, from what has yet to go by.
func (f *Buffer) Open(limit int, b *Budget) { f.limit, f.of = limit, b }

// Opened reports whether it is to keep anything.
func (f *Buffer) Opened() bool { return f.limit > 0 }

// Add notes a piece.
func (f *Buffer) Add(p []byte) {
	f.n += int64(len(p))
	p = p[:min(len(p), f.limit-len(f.kept))]
	if len(p) == 0 {
		return
	}
	if !f.grow(len(f.kept) + len(p)) {
		f.Drop()
		f.short = true
		return
	}
	f.kept = append(f.kept, p...)
}

// grow makes room for n bytes in all, and for no more than the limit.
func (f *Buffer) grow(n int) bool {
	had := cap(f.kept)
	if n <= had {
		return true
	}
	size := min(max(n, 2*had), f.limit)
	if !f.of.take(size - had) {
		return false
	}
	f.kept = append(make([]byte, 0, size), f.kept...)
	return true
}

// Kept returns what is kept, good until Drop.
func (f *Buffer) Kept() []byte { return f.kept }

// N returns how many bytes went by.
func (f *Buffer) N() int64 { return f.n }

// All reports whether everything that went by is kept.
func (f *Buffer) All() bool { return f.n == int64(len(f.kept)) }

// Short reports whether nothing is kept because there was no memory for it.
func (f *Buffer) Short() bool { return f.short }

// Drop gives the memory back. What still goes by is counted, and not kept.
func (f *Buffer) Drop() {
	f.of.give(cap(f.kept))
	f.kept, f.limit = nil, 0
}

// Take moves what is kept into the Buffer that it returns. This one goes on counting.
func (f *Buffer) Take() Buffer {
	taken := *f
	*f = Buffer{n: f.n}
	return taken
}
