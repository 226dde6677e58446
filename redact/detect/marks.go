package detect

// mark is what a byte may be the sign of.
type mark uint8

const (
	markDigit mark = 1 << iota
	markAt
	markEquals
	markColon
	markPlus
)

var marked = func() (m [256]mark) {
	for b := '0'; b <= '9'; b++ {
		m[b] = markDigit
	}
	m['@'], m['='], m[':'], m['-'], m['.'], m['+'] = markAt, markEquals, markColon, markColon, markColon, markPlus
	return m
}()

// wanted returns what the classes of a Set want to look at.
func (s *Set) wanted() mark {
	want := markEquals
	if s.email {
		want |= markAt
	}
	if s.digits {
		want |= markDigit
	}
	if s.ip || s.mac {
		want |= markColon
	}
	if s.phone {
		want |= markPlus
	}
	return want
}

// marks passes over the text once more, for what has no word that tells of it.
func (c *scanner) marks() {
	want := c.want
	text := c.text
	for i := 0; i < len(text); i++ {
		m := marked[text[i]] & want
		if m == 0 {
			continue
		}
		switch m {
		case markEquals:
			c.param(i)
		case markAt:
			c.mail(i)
		case markColon:
			if i > 1 && hexByte[text[i-1]] && hexByte[text[i-2]] || i+1 < len(text) && text[i+1] == ':' || i > 0 && hexByte[text[i-1]] && text[i] == ':' {
				c.colon(i)
			}
		case markPlus:
			c.international(i)
		case markDigit:
			end := run(text, i, &digitByte)
			c.number(i, end)
			i = end - 1
		}
	}
}

// number looks at a run of digits as the beginning, or the first digits, of what has numbers in it.
func (c *scanner) number(at, end int) {
	text := c.text
	letters := back(text, at, 4, &alnumByte)
	if letters == at {
		if c.ip && end-at <= 3 && end < len(text) && text[end] == '.' {
			c.ipv4(at, end)
		}
		if c.grouped && (end-at >= 7 || end+2 >= len(text) || in(text[end], " -.:/)")) {
			c.figures(at)
		}
	}
	if c.iban && end-at >= 2 && at-letters == 2 {
		c.account(letters)
	}
	if c.wallet && end-at <= 4 && end < len(text) && isAlpha(text[end]) {
		c.bitcoin(at, letters)
	}
	if c.national && (letters < at || end-at == 7 || end-at == 8 || at > 2 && text[at-1] == ' ') {
		c.person(at, end, letters)
	}
}

// figures reads digits in groups with one kind of separator between them, and asks what they are: all of them, then fewer, since
// another number may follow.
func (c *scanner) figures(at int) {
	var f figures
	f.read(c.text, at)
	if len(c.text)-f.end <= 2 {
		c.touch(max(0, at-len("+1 (")))
	}
	for ; f.n >= fewest; f.drop(c.text) {
		if class, start := c.figuresAre(&f); class != "" {
			c.found(start, f.end, class)
			return
		}
	}
}

// fewest is the least number of digits of what figures looks for.
const fewest = 9

func (c *scanner) figuresAre(f *figures) (class string, start int) {
	if !f.whole {
		return "", 0
	}
	if c.card && f.card() && !f.inAccount(c.text) {
		return Card, f.at
	}
	if c.ssn && f.social(c.text) {
		return SSN, f.at
	}
	if c.phone {
		if start, ok := f.american(c.text); ok {
			return Phone, start
		}
	}
	if c.national && f.person(c.text) {
		return NationalID, f.at
	}
	return "", 0
}

// figures are digits in groups: 4012 8888 8888 1881, 078-05-1120, (415) 555-0132.
type figures struct {
	at, end int
	digits  [20]byte // their values
	n       int
	groups  [8]int  // their lengths
	seps    [8]byte // what stands behind them
	g       int
	sep     byte // between all groups; 0 if there is one group, 1 if they differ
	dropped bool // groups that followed were left out
	clear   bool // neither letter nor digit stands before
	whole   bool // nor behind
}

// read takes up to 19 digits in up to eight groups, with at most one separator between two.
func (f *figures) read(text []byte, at int) {
	f.at = at
	f.clear = at == 0 || !wordByte[text[at-1]] && !(at > 1 && in(text[at-1], "-./") && isDigit(text[at-2]))
	for f.g < len(f.groups) {
		start := at
		for at < len(text) && isDigit(text[at]) {
			if f.n == len(f.digits) {
				f.n -= at - start
				f.judge(text)
				return
			}
			f.digits[f.n] = text[at] - '0'
			f.n++
			at++
		}
		f.groups[f.g] = at - start
		f.g++
		f.end = at
		if at == start {
			break
		}
		if at+1 >= len(text) || !in(text[at], " -.:/)") {
			break
		}
		sep, next := text[at], at+1
		if sep == ')' && text[next] == ' ' {
			next++
		}
		if next >= len(text) || !isDigit(text[next]) {
			break
		}
		f.seps[f.g-1] = sep
		at = next
	}
	f.judge(text)
}

// drop leaves out the last group.
func (f *figures) drop(text []byte) {
	f.dropped = true
	f.g--
	f.n -= f.groups[f.g]
	if f.g == 0 {
		return
	}
	f.end -= f.groups[f.g] + 1
	if f.seps[f.g-1] == ')' && !isDigit(text[f.end-1]) {
		f.end--
	}
	f.judge(text)
}

// judge looks at the separators, and at what stands around.
func (f *figures) judge(text []byte) {
	f.sep, f.whole = 0, f.clear
	if f.g == 0 {
		return
	}
	for _, s := range f.seps[:f.g-1] {
		switch f.sep {
		case 0:
			f.sep = s
		case s:
		default:
			f.sep = 1
		}
	}
	if f.end < len(text) && wordByte[text[f.end]] {
		f.whole = false
	}
}

// shape reports whether the groups have exactly these lengths.
func (f *figures) shape(lengths ...int) bool {
	if f.g != len(lengths) {
		return false
	}
	for i, n := range lengths {
		if f.groups[i] != n {
			return false
		}
	}
	return true
}

// luhn reports whether the last of the digits checks the others (ISO/IEC 7812-1).
func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		n := int(d)
		if (len(digits)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// number returns digits as a number.
func number(digits []byte) (n int) {
	for _, d := range digits {
		n = 10*n + int(d)
	}
	return n
}

var alnumByte = classOf(isAlnum)
