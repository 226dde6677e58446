package detect

import "bytes"

// card reports whether the digits are a payment card's: Luhn's check, a length and a range that an issuer has, and groups as on
// cards. A count of milliseconds, which has 13 digits and begins with 1, is in no range.
func (f *figures) card() bool {
	if f.n < 13 || f.n > 19 || f.sep == 1 || f.sep != 0 && f.sep != ' ' && f.sep != '-' || !f.cardGroups() {
		return false
	}
	d := f.digits[:f.n]
	return issuer(number(d[:4]), f.n) && luhn(d)
}

func (f *figures) cardGroups() bool {
	if f.g == 1 {
		return true
	}
	for i, n := range f.groups[:f.g] {
		if n > 6 || n < 4 && i < f.g-1 {
			return false
		}
	}
	return f.groups[0] == 4
}

// issuer knows the ranges by the first four digits and the length.
func issuer(first, n int) bool {
	switch {
	case first/1000 == 4: // Visa
		return n == 13 || n == 16 || n == 19
	case first/100 == 34, first/100 == 37: // American Express
		return n == 15
	case first >= 2221 && first <= 2720, first/100 >= 51 && first/100 <= 55: // Mastercard
		return n == 16
	case first/100 == 36, first/100 == 38, first/100 == 39, first >= 3000 && first <= 3059: // Diners Club
		return n >= 14
	case first >= 3528 && first <= 3589: // JCB
		return n >= 16
	case first/100 == 50, first/100 >= 56 && first/100 <= 58: // Maestro, Dankort
		return n >= 13
	case first/100 >= 60 && first/100 <= 69: // Discover, UnionPay, Maestro, RuPay
		return n >= 14
	}
	return false
}

// social reports whether the digits are a United States social security number: three, two and four, each of which the
// administration gives out. Nine digits without separators need a name or a word for it, since every tenth number would do.
func (f *figures) social(text []byte) bool {
	if f.n != 9 {
		return false
	}
	switch {
	case f.shape(3, 2, 4) && (f.sep == '-' || f.sep == ' '):
	case f.g == 1 && before(text, f.at, "ssn", "social security", "social_security"):
	default:
		return false
	}
	area, group, serial := number(f.digits[:3]), number(f.digits[3:5]), number(f.digits[5:9])
	// 078-05-1120 was printed on cards that came with wallets.
	return area != 0 && area != 666 && area < 900 && group != 0 && serial != 0 && (area != 78 || group != 5 || serial != 1120)
}

// before reports whether one of the words, in lower case, stands within 24 bytes before a place. The class of a placeholder is none.
func before(text []byte, at int, words ...string) bool {
	for i := max(at-24, 0); i < at; i++ {
		for _, w := range words {
			if foldPrefix(text[i:at], w) && !bytes.HasSuffix(text[:i], []byte(placeholder)) {
				return true
			}
		}
	}
	return false
}
