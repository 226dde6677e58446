package detect

// person reports whether the digits are a number that a state gives to a person. Each kind has a check digit; where that lets every
// tenth number through, the number must also be written in its groups or hold a date.
//
//	India    Aadhaar             12 digits, 4-4-4 or none, Verhoeff
//	Canada   SIN                 9 digits, 3-3-3, or with a word before, Luhn
//	UK       NHS                 10 digits, 3-3-4, mod 11
//	Poland   PESEL               11 digits, a date, weights
//	Sweden   personnummer        10 or 12 digits, a date, Luhn
//	USA      ITIN, bank routing  9 digits, in groups, or with a word before
func (f *figures) person(text []byte) bool {
	if f.at > 1 && text[f.at-1] == ' ' && isDigit(text[f.at-2]) && f.sep == ' ' || f.dropped && f.seps[f.g-1] == f.sep {
		return false // a part of something longer
	}
	d := f.digits[:f.n]
	switch f.n {
	case 9:
		return f.nine(text, d)
	case 10:
		return f.shape(3, 3, 4) && f.sep != 1 && weighted(d, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1) ||
			(f.g == 1 || f.shape(6, 4) && f.sep == '-') && date(d[2:6]) && luhn(d)
	case 11:
		return f.g == 1 && date([]byte{d[2] % 2, d[3], d[4], d[5]}) && weighted(d, 10, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)
	case 12:
		return (f.g == 1 || f.shape(4, 4, 4) && f.sep != 1) && d[0] > 1 && verhoeff(d) ||
			(f.g == 1 || f.shape(8, 4) && f.sep == '-') && (number(d[:2]) == 18 || number(d[:2]) == 19 || number(d[:2]) == 20) &&
				date(d[4:8]) && luhn(d[2:])
	}
	return false
}

func (f *figures) nine(text []byte, d []byte) bool {
	sin := luhn(d) && d[0] != 0 && d[0] != 8 && d[0] != 9 || luhn(d) && d[0] == 9
	itin := d[0] == 9 && (d[3] >= 5 && d[3] <= 6 || number(d[3:5]) >= 70 && number(d[3:5]) != 89 && number(d[3:5]) != 93)
	switch {
	case f.shape(3, 3, 3) && (f.sep == '-' || f.sep == ' '):
		return sin && !(d[0] == d[1] && d[1] == d[2])
	case f.shape(3, 2, 4) || f.shape(3, 6) || f.shape(5, 4):
		return itin && f.sep == '-'
	case f.g == 1 && before(text, f.at, "sin", "nas", "itin", "tax id"):
		return sin || itin
	case f.g == 1 && before(text, f.at, "routing", "aba", "rtn"):
		return weighted(d, 10, 3, 7, 1, 3, 7, 1, 3, 7, 1)
	}
	return false
}

// date reports whether four digits are a month and a day. Sweden adds 60 to the day for those who have no number of their own.
func date(d []byte) bool {
	month, day := number(d[:2]), number(d[2:4])
	return month >= 1 && month <= 12 && (day >= 1 && day <= 31 || day >= 61 && day <= 91)
}

// weighted reports whether the digits, each with its weight, add up to a multiple of m.
func weighted(d []byte, m int, weights ...int) bool {
	sum := 0
	for i, w := range weights {
		sum += int(d[i]) * w
	}
	return sum%m == 0
}

// verhoeff checks digits in the dihedral group of order ten.
func verhoeff(d []byte) bool {
	check := 0
	for i := range d {
		v := int(d[len(d)-1-i])
		for range i % 8 {
			v = permuted[v]
		}
		check = dihedral(check, v)
	}
	return check == 0
}

var permuted = [10]int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}

func dihedral(a, b int) int {
	switch {
	case a < 5 && b < 5:
		return (a + b) % 5
	case a < 5:
		return 5 + (a+b)%5
	case b < 5:
		return 5 + (a-b+5)%5
	}
	return (a - b + 10) % 5
}

// person finds numbers of persons that have letters in them, by their first digits.
//
//	Spain   NIF                 7 or 8 digits and a check letter
//	Italy   codice fiscale      16 letters and digits in a fixed pattern
//	UK      National Insurance  two letters, six digits, a letter from A to D
//	USA     passport            a letter and 8 digits, with a word before
func (c *scanner) person(at, end, letters int) {
	if letters > 0 && wordByte[c.text[letters-1]] && at-letters < 4 {
		return
	}
	switch at - letters {
	case 0:
		c.nif(at, end)
	case 1:
		if end-at == 8 && c.ends(end) && before(c.text, letters, "passport", "travel doc") {
			c.found(letters, end, NationalID)
		}
	case 2:
		c.nino(letters, at)
	case 4:
		c.fiscal(at - 6)
	}
	if at > 2 && c.text[at-1] == ' ' {
		if l := back(c.text, at-1, 3, &alnumByte); l == at-3 && (l == 0 || !wordByte[c.text[l-1]]) {
			c.nino(l, at)
		}
	}
}

func (c *scanner) ends(at int) bool { return at == len(c.text) || !wordByte[c.text[at]] }

func (c *scanner) nif(at, end int) {
	if at > 0 && (wordByte[c.text[at-1]] || c.text[at-1] == '-') {
		return
	}
	n := end - at
	if end < len(c.text) && c.text[end] == '-' {
		end++
	}
	if n != 7 && n != 8 || end >= len(c.text) || !c.ends(end+1) {
		return
	}
	value := 0
	for _, b := range c.text[at : at+n] {
		value = 10*value + int(b-'0')
	}
	if c.text[end] == "TRWAGMYFPDXBNJZSQVHLCKE"[value%23] {
		c.found(at, end+1, NationalID)
	}
}

// nino reads two letters at start, and from at six digits and a letter with or without spaces between pairs.
func (c *scanner) nino(start, at int) {
	a, b := c.text[start], c.text[start+1]
	if !isUpper(a) || !isUpper(b) || in(a, "DFIQUV") || in(b, "DFIQUVO") {
		return
	}
	switch string(c.text[start : start+2]) {
	case "BG", "GB", "NK", "KN", "TN", "NT", "ZZ":
		return
	}
	digits := 0
	for ; at < len(c.text) && digits < 6 && (isDigit(c.text[at]) || c.text[at] == ' ' && digits%2 == 0); at++ {
		if isDigit(c.text[at]) {
			digits++
		}
	}
	if at < len(c.text) && c.text[at] == ' ' {
		at++
	}
	if at == len(c.text) {
		c.touch(start)
	}
	if digits == 6 && at < len(c.text) && c.text[at] >= 'A' && c.text[at] <= 'D' && c.ends(at+1) {
		c.found(start, at+1, NationalID)
	}
}

// fiscal reads AAAAAA00B11C333N.
func (c *scanner) fiscal(start int) {
	const form = "AAAAAA00A00A000A"
	if start < 0 || start+len(form) > len(c.text) || start > 0 && wordByte[c.text[start-1]] || !c.ends(start+len(form)) {
		return
	}
	for i := range form {
		if b := c.text[start+i]; form[i] == 'A' && !isUpper(b) || form[i] == '0' && !isDigit(b) {
			return
		}
	}
	c.found(start, start+len(form), NationalID)
}
