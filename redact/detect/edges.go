package detect

// widen takes in what is left of a word of which a part was found, since a rule may match less than the whole secret.
func (c *scanner) widen() {
	for i := range c.spans {
		s := &c.spans[i]
		if wordByte[c.text[s.End-1]] {
			for s.End < len(c.text) && (wordByte[c.text[s.End]] || s.Class == Token && c.text[s.End] == '-') {
				s.End++
			}
		}
		if !wordByte[c.text[s.Start]] {
			continue
		}
		start := back(c.text, s.Start, s.Start, &wordByte)
		if start > 0 && c.text[start-1] == '\\' {
			start++ // the letter of an escape such as \n
		}
		s.Start = min(s.Start, start)
	}
}

const (
	// beside is how far from a span it matters that the span will be a placeholder.
	beside = 96
	// rounds bounds how often what was found lets something beside it be found.
	rounds = 4
)

// edges looks once more at what stands right beside what was found: as soon as that is masked, a delimiter stands there, and what
// was the middle of a word is the end of one. Without it, masking twice would mask more than masking once.
func (c *scanner) edges() {
	text, open, begun := c.text, c.open, c.begun
	for range rounds {
		c.spans = merge(c.spans)
		known := len(c.spans)
		for i := range known {
			left, right := 0, len(text)
			if i > 0 {
				left = c.spans[i-1].End
			}
			if i+1 < known {
				right = c.spans[i+1].Start
			}
			s := c.spans[i]
			if s.Start > left && runByte[text[s.Start-1]] {
				c.piece(text[max(left, s.Start-beside):s.Start], max(left, s.Start-beside), s.Start)
			}
			if s.End < right && runByte[text[s.End]] {
				c.piece(text[s.End:min(right, s.End+beside)], s.End, s.End)
			}
		}
		c.text = text
		if len(c.spans) == known {
			break
		}
		c.widen()
	}
	c.open, c.begun = open, begun
}

// piece scans a part of the text, which begins at an offset, and keeps what touches the edge.
func (c *scanner) piece(text []byte, at, edge int) {
	before := len(c.spans)
	c.begin(text)
	c.words()
	c.marks()
	kept := c.spans[:before]
	for _, s := range c.spans[before:] {
		s.Start, s.End = s.Start+at, s.End+at
		if s.Start-edge <= 2 && edge-s.End <= 2 {
			kept = append(kept, s)
		}
	}
	c.spans = kept
}
