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
	// sparse is how many bits of the filter there are for one of the table: the filter is to be nearly empty, the table full.
	sparse = 4
	// rare is how many forms may have the same place of the table for an anchor to be taken; crowd is as far as they are counted.
	rare, crowd = 3, 64
)

// anchors finds the forms that have a stretch of eight bytes in them. A filter of bits keeps nearly all of a text from the table. Bits
// of what was removed stay until the filter is built anew, which happens once for as many changes as there are bits.
//
// Anchors themselves are not kept, for the sake of memory: the form says them again.
type anchors struct {
	filter  []uint64
	shift   int
	first   []int32 // the first entry of each hash, 0 for none
	entries []entry // the one at 0 is unused
	free    int32
	live    int
	stale   int
}

type entry struct {
	held *held
	next int32
	tag  uint16 // bits of the hash that the table does not use, so that few others are compared
	form uint8  // the number of the place among the secret's forms
}

func (e *entry) anchor() uint64 { return e.held.anchor(int(e.form)) }

func newAnchors() anchors {
	a := anchors{entries: make([]entry, 1)}
	a.build()
	return a
}

// build makes a filter of sixteen bits or more for each anchor, and a table of one place or more.
func (a *anchors) build() {
	size := max(smallest, bits.Len(uint(16*a.live)))
	a.filter, a.first = make([]uint64, 1<<size>>6), make([]int32, 1<<size>>sparse)
	a.shift, a.stale = 64-size, 0
	for n := range a.entries {
		if a.entries[n].held != nil {
			a.link(int32(n))
		}
	}
}

// link enters an entry that is filled in.
func (a *anchors) link(n int32) {
	e := &a.entries[n]
	h := e.anchor() * spread
	e.tag = a.tag(h)
	h >>= a.shift
	a.filter[h>>6] |= 1 << (h & 63)
	e.next, a.first[h>>sparse] = a.first[h>>sparse], n
}

// tag returns the bits of a hash below those that the filter uses.
func (a *anchors) tag(hash uint64) uint16 { return uint16(hash >> (a.shift - 16)) }

// place returns where the table has the first entry of an anchor, among others.
func (a *anchors) place(anchor uint64) *int32 { return &a.first[anchor*spread>>a.shift>>sparse] }

// choose picks the anchor that the fewest other forms have: the beginnings of tokens are often all the same, and some have the same
// end. It looks at the end first, then at ever smaller parts of the secret, and takes the first that is rare.
func (a *anchors) choose(f *form, value string) placed {
	var best placed
	fewest := 1 << 30
	last := f.last(value)
	for part := 1; part <= 32 && fewest > rare; part *= 2 {
		for k := max(part-1, 1); k > 0 && fewest > rare; k -= 2 {
			at := f.align(last * k / part)
			n := 0
			for i := *a.place(f.anchor(value, at)); i != 0 && n < min(fewest, crowd); i = a.entries[i].next {
				n++
			}
			if n < fewest {
				best, fewest = placed{form: f.number, at: uint32(at)}, n
			}
		}
	}
	return best
}

// anchor returns the window's bytes of the form from a place of the secret on.
func (f *form) anchor(value string, at int) uint64 {
	var buf [2*window + maxUnit]byte
	return binary.LittleEndian.Uint64(f.append(buf[:0], value, at, window))
}

// add enters the form of this number.
func (a *anchors) add(h *held, number int) {
	n := a.free
	if n != 0 {
		a.free = a.entries[n].next
	} else {
		a.entries = append(a.entries, entry{})
		n = int32(len(a.entries) - 1)
	}
	a.entries[n] = entry{held: h, form: uint8(number)}
	if a.live++; 8*a.live > len(a.filter)<<6 {
		a.build()
		return
	}
	a.link(n)
}

func (a *anchors) remove(h *held, number int) {
	for p := a.place(h.anchor(number)); *p != 0; p = &a.entries[*p].next {
		n := *p
		e := &a.entries[n]
		if e.held != h || int(e.form) != number {
			continue
		}
		*p = e.next
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
