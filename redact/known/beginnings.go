package known

import (
	"encoding/binary"
	"hash/maphash"
)

// The lengths of beginnings that are remembered: a text's end is compared at the greatest that it has.
const (
	shallowest = 4
	deepest    = 256
)

var depths = [...]int{deepest, 64, 16}

// beginnings knows how forms begin, and so what may still become one. It keeps the first four bytes, hashes of longer beginnings, and
// how many forms have each.
type beginnings struct {
	seed  maphash.Seed
	short map[uint32]uint32
	long  map[uint32]uint32 // by half a hash: one that is taken for another holds text back, and no more
	quick [1 << 10]uint64   // a bit for every hash of four bytes; those of what was removed stay for a while
	stale int
}

func newBeginnings() beginnings {
	return beginnings{seed: maphash.MakeSeed(), short: map[uint32]uint32{}, long: map[uint32]uint32{}}
}

func (b *beginnings) hash(text []byte) uint32 { return uint32(maphash.Bytes(b.seed, text)) }

// bit returns the place of four bytes in quick.
func bit(w uint32) uint32 { return w * 0x9e3779b1 >> 16 }

func (b *beginnings) add(prefix []byte) {
	w := binary.LittleEndian.Uint32(prefix)
	b.short[w]++
	b.quick[bit(w)>>6] |= 1 << (bit(w) & 63)
	for _, n := range depths {
		if n <= len(prefix) {
			b.long[b.hash(prefix[:n])]++
		}
	}
}

func (b *beginnings) remove(prefix []byte) {
	w := binary.LittleEndian.Uint32(prefix)
	if b.short[w]--; b.short[w] == 0 {
		delete(b.short, w)
		b.stale++
	}
	for _, n := range depths {
		if n > len(prefix) {
			continue
		}
		h := b.hash(prefix[:n])
		if b.long[h]--; b.long[h] == 0 {
			delete(b.long, h)
		}
	}
	if b.stale > 1<<12 {
		b.quick, b.stale = [1 << 10]uint64{}, 0
		for w := range b.short {
			b.quick[bit(w)>>6] |= 1 << (bit(w) & 63)
		}
	}
}

// may reports whether a form may begin like this text, which has four bytes or more.
func (b *beginnings) may(text []byte) bool {
	w := binary.LittleEndian.Uint32(text)
	if b.quick[bit(w)>>6]>>(bit(w)&63)&1 == 0 || b.short[w] == 0 {
		return false
	}
	for _, n := range depths {
		if n <= len(text) {
			return b.long[b.hash(text[:n])] != 0
		}
	}
	return true
}

// lengths counts forms by their length, in steps, so that the greatest is known when one goes.
type lengths struct {
	forms map[int]int
	most  int // the greatest length, rounded up
}

const step = 64

func (l *lengths) add(n int) {
	k := (n + step - 1) / step
	l.forms[k]++
	l.most = max(l.most, k*step)
}

func (l *lengths) remove(n int) {
	k := (n + step - 1) / step
	if l.forms[k]--; l.forms[k] > 0 {
		return
	}
	delete(l.forms, k)
	if k*step == l.most {
		l.most = 0
		for k := range l.forms {
			l.most = max(l.most, k*step)
		}
	}
}
