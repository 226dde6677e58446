package detect

// look tells in one pass whether a word of a rule stands in the text, and what marks are in it. Most texts have no word.
func (s *Set) look(text []byte) (word bool, signs mark) {
	state, a := uint16(0), s.auto
	next, from := a.next, a.from
	for i, b := range text {
		signs |= marked[b]
		state = next[int(state)<<rowBits|int(a.class[b]&(1<<rowBits-1))]
		if state >= from {
			for _, b := range text[i:] {
				signs |= marked[b]
			}
			return true, signs
		}
	}
	return false, signs
}

// Seen is what a first look at a text saw: whether there is a word of a rule, or a sign that asks for a closer look.
type Seen struct{ Word, Sign bool }

// Quiet reports that Scan finds nothing, unless the text's name tells more.
func (s Seen) Quiet() bool { return !s.Word && !s.Sign }

// Look passes over a text once.
func (s *Set) Look(text []byte) Seen {
	word, signs := s.look(text)
	return Seen{word, signs&s.want != 0}
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
