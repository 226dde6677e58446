package redact

// hold is a value that was copied, or is being copied, and may have to be masked for what follows it.
type hold struct {
	start, end int  // in out, where that has all that was read; the end is -1 while the value is read
	raw, rawTo int  // in buf, if that is all there is
	text       bool // a string
	opens      bool // an array of which nothing was read yet
	list       bool // an array of objects or arrays
	dead       bool // it was settled
}

// holding are such values, those of an inner object or array behind those of the outer ones.
type holding struct {
	kept    []hold
	waiting int  // those that are not settled
	settled int  // masks that were written for them
	muted   bool // one was masked before it was read to its end, and nothing is copied until then
	mutedBy int
}

// maxHeld bounds what of a stream is held for the sake of such values.
const maxHeld = 64 << 10

// hold notes that the value of which c is the first byte may have to be masked later. It returns its index.
func (r *reader) hold(c byte, base int) int {
	for len(r.kept) > base && r.kept[len(r.kept)-1].dead {
		r.kept = r.kept[:len(r.kept)-1]
	}
	h := hold{start: len(r.out) + r.tok - r.done, end: -1, raw: r.tok, text: c == '"', opens: c == '[', dead: r.muted}
	if !h.dead {
		r.waiting++
	}
	r.kept = append(r.kept, h)
	return len(r.kept) - 1
}

// ended notes that the value was read.
func (r *reader) ended(i int) {
	h := &r.kept[i]
	if !h.dead {
		h.end, h.rawTo = len(r.out)+r.at-r.done, r.at
		return
	}
	if r.muted && r.mutedBy == i {
		r.muted, r.done = false, r.at
	}
}

// drop ends the holding of the values since base.
func (r *reader) drop(base int) {
	for _, h := range r.kept[base:] {
		if !h.dead {
			r.waiting--
		}
	}
	r.kept = r.kept[:base]
}

// opened notes what the first element of an array is.
func (r *reader) opened(c byte) {
	if n := len(r.kept); n > 0 && r.kept[n-1].opens {
		r.kept[n-1].opens, r.kept[n-1].list = false, c == '{' || c == '['
	}
}

// settle masks what is held, since no more can be, so that all of out can go. An array of objects or arrays is let go: it is a list of
// results under the name "value", as of OData, and what it holds is looked at for itself.
func (r *reader) settle() {
	if r.waiting == 0 {
		return
	}
	var out []byte
	done := 0
	for i := range r.kept {
		h := &r.kept[i]
		if h.dead {
			continue
		}
		h.dead = true
		if h.list || r.muted {
			continue
		}
		out = append(out, r.out[done:min(h.start, len(r.out))]...)
		out = append(out, `"`+maskCredential+`"`...)
		r.settled++
		if done = min(h.end, len(r.out)); h.end < 0 { // a number that may have been cut is not in out
			done, r.muted, r.mutedBy = len(r.out), true, i
		}
	}
	r.waiting = 0
	r.out = append(out, r.out[done:]...)
}
