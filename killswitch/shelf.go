package killswitch

import (
	"hash/maphash"
	"maps"
	"slices"
)

// shelf maps values to revocations. A changed copy shares with the original all buckets but those that the change touches, so
// that one more revocation costs the same however many there are. A nil shelf is empty.
type shelf struct {
	era    uint64 // of the set that made this copy, which alone may change it
	bucket [256]bucket
}

type bucket struct {
	era uint64
	of  map[string][]*Revocation
}

var seed = maphash.MakeSeed()

func slot(value string) int { return int(maphash.String(seed, value) % uint64(len(shelf{}.bucket))) }

func (h *shelf) get(value string) []*Revocation {
	if h == nil {
		return nil
	}
	return h.bucket[slot(value)].of[value]
}

// own returns h for the set of this era to change, and in it the bucket of value.
func (h *shelf) own(era uint64, value string) (*shelf, *bucket) {
	switch {
	case h == nil:
		h = &shelf{era: era}
	case h.era != era:
		copied := *h
		h = &copied
		h.era = era
	}
	b := &h.bucket[slot(value)]
	switch {
	case b.of == nil:
		b.era, b.of = era, map[string][]*Revocation{}
	case b.era != era:
		b.era, b.of = era, maps.Clone(b.of)
	}
	return h, b
}

// with returns h with r under value. Each set is made from the newest one: what is appended lies beyond what any earlier set sees
// of the same array.
func (h *shelf) with(era uint64, value string, r *Revocation) *shelf {
	h, b := h.own(era, value)
	b.of[value] = append(b.of[value], r)
	return h
}

// without returns h with r no longer under value.
func (h *shelf) without(era uint64, value string, r *Revocation) *shelf {
	i := slices.Index(h.get(value), r)
	if i < 0 {
		return h
	}
	h, b := h.own(era, value)
	if rest := b.of[value]; len(rest) > 1 {
		b.of[value] = slices.Concat(rest[:i], rest[i+1:])
	} else {
		delete(b.of, value)
	}
	return h
}
