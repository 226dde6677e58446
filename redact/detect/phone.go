package detect

// american reports whether the digits are a North American telephone number, written with separators: 415-555-0132, (415) 555-0132,
// 1.415.555.0132. Area codes and exchanges begin with 2 to 9. It returns where the number begins, since "(" and "+1" belong to it.
func (f *figures) american(text []byte) (start int, ok bool) {
	d, at := f.digits[:f.n], f.at
	bracket := at > 0 && text[at-1] == '('
	switch {
	case f.g < 2:
		return 0, false
	case f.shape(3, 3, 4):
	case f.shape(1, 3, 3, 4) && d[0] == 1:
		d = d[1:]
	case f.shape(3, 7) && bracket:
	default:
		return 0, false
	}
	if d[0] < 2 || d[3] < 2 || f.sep == '/' || f.sep == ':' {
		return 0, false
	}
	if bracket {
		at--
	}
	if f.sep == 1 && !bracket {
		return 0, false
	}
	for at > 0 && (text[at-1] == '+' || text[at-1] == ' ' && at > 2 && text[at-2] == '1' && text[at-3] == '+') {
		if text[at-1] == '+' {
			at--
			continue
		}
		at -= 3
	}
	return at, true
}

// international finds a number with a country's code (E.164): "+", and 8 to 15 digits in groups.
func (c *scanner) international(at int) {
	if at+1 >= len(c.text) || c.text[at+1] < '1' || c.text[at+1] > '9' || at > 0 && (wordByte[c.text[at-1]] || in(c.text[at-1], "+/=-")) {
		return
	}
	digits, end := 0, at+1
	for i := at + 1; i < len(c.text) && digits < 16; i++ {
		b := c.text[i]
		switch {
		case isDigit(b):
			digits++
			end = i + 1
		case !in(b, " -.()") || i > end+1:
			i = len(c.text)
			continue
		}
		if i == len(c.text)-1 {
			c.touch(at)
		}
	}
	if digits >= 8 && digits <= 15 && (end == len(c.text) || !wordByte[c.text[end]]) {
		c.found(at, end, Phone)
	}
}
