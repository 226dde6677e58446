package known

import (
	"encoding/binary"
	"math/bits"
)

const (
	// window is the length of an anchor: of each form one stretch of eight bytes is looked for, and the rest compared only where it is found.
	window = 8
	// spread multiplies an anchor so that the upper bits depend on all of it.
	spread = 0x9e3779b97f4a7c15
	// smallest is the number of bits of the smallest filter, as a power of two: four kilobytes.
	smallest = 15
)

// anchors finds the forms that have a stretch of eight bytes in them. A filter of bits keeps nearly all of a text from the map. Bits
// of what was removed stay until the filter is built anew, which happens once for as many changes as there are bits.
type anchors struct {
	filter  []uint64
	shift   int
	first   map[uint64]int32
	entries []entry // the one at 0 is unused
	free    int32
	live    int
	stale   int
}

type entry struct {
	held *held
	form *form
	at   int // where in the secret the anchor begins
	next int32
}

func newAnchors() anchors {
	a := anchors{first: map[uint64]int32{}, entries: make([]entry, 1)}
	a.build()
	return a
}

// build makes a filter of sixteen bits or more for each anchor.
func (a *anchors) build() {
	size := max(smallest, bits.Len(uint(16*len(a.first))))
	a.filter, a.shift, a.stale = make([]uint64, 1<<size>>6), 64-size, 0
	for w := range a.first {
		a.mark(w)
	}
}

func (a *anchors) mark(w uint64) {
	h := w * spread >> a.shift
	a.filter[h>>6] |= 1 << (h & 63)
}

// choose picks the anchor that the fewest other forms have: the beginnings of tokens are often all the same.
func (a *anchors) choose(f *form, value string) placed {
	var best placed
	fewest := 1 << 30
	last := f.last(value)
	for _, at := range [...]int{last, last * 3 / 4, last / 2, last / 4, 0} {
		at = f.align(at)
		var buf [2*window + maxUnit]byte
		w := binary.LittleEndian.Uint64(f.append(buf[:0], value, at, window))
		n := 0
		for i := a.first[w]; i != 0 && n < fewest; i = a.entries[i].next {
			n++
		}
		if n < fewest {
			best, fewest = placed{form: f, at: at, anchor: w}, n
		}
		if n == 0 {
			break
		}
	}
	return best
}

func (a *anchors) add(h *held, p placed) {
	n := a.free
	if n != 0 {
		a.free = a.entries[n].next
	} else {
		a.entries = append(a.entries, entry{})
		n = int32(len(a.entries) - 1)
	}
	a.entries[n] = entry{held: h, form: p.form, at: p.at, next: a.first[p.anchor]}
	a.first[p.anchor] = n
	a.mark(p.anchor)
	if a.live++; 8*a.live > len(a.filter)<<6 {
		a.build()
	}
}

func (a *anchors) remove(h *held, p placed) {
	before := int32(0)
	for n := a.first[p.anchor]; n != 0; before, n = n, a.entries[n].next {
		e := &a.entries[n]
		if e.held != h || e.form != p.form {
			continue
		}
		switch {
		case before != 0:
			a.entries[before].next = e.next
		case e.next != 0:
			a.first[p.anchor] = e.next
		default:
			delete(a.first, p.anchor)
		}
		*e = entry{next: a.free}
		a.free = n
		a.live--
		a.stale++
		break
	}
	if 8*a.stale > len(a.filter)<<6 {
		a.build()
	}
}
