package detect

// Seen is what a first look at a text saw.
type Seen struct {
	Word   bool // a word of a rule
	Scheme bool // "eyJ", "-----BEG", "Bearer " or "Basic "
	Sign   bool // a byte that asks for a closer look
}

// Quiet reports that Scan finds nothing, unless the text's name tells more.
func (s Seen) Quiet() bool { return !s.Word && !s.Sign }

// Look passes over a text once. Most texts have no word.
func (s *Set) Look(text []byte) (seen Seen) {
	state, a := uint16(0), s.auto
	next, from, signs := a.next, a.from, mark(0)
	for _, b := range text {
		signs |= marked[b]
		state = next[int(state)<<rowBits|int(a.class[b]&(1<<rowBits-1))]
		if state >= from {
			seen.Word = true
			seen.Scheme = seen.Scheme || s.schemes[state-from]
		}
	}
	seen.Sign = signs&s.want != 0
	return seen
}

// scheme reports whether a chain of words has one that tells of a token by its form alone.
func (rs *ruleset) scheme(out uint16) bool {
	for ; out != 0; out = rs.auto.out[out].next {
		switch rs.words[rs.auto.out[out].word].hint {
		case hintJWT, hintPEM, hintBearer, hintBasic:
			return true
		}
	}
	return false
}

// Tells reports whether Scan finds more in a value under this name than without a name.
func (s *Set) Tells(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	var buf [64]byte
	if secretName(normalise(buf[:0], name)) {
		return true
	}
	var state uint16
	_, out := s.auto.scan(append(buf[:0], name...), 0, &state)
	return out != 0
}
