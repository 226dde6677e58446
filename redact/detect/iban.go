package detect

// ibans are the lengths of account numbers by country (the registry of ISO 13616).
var ibans = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22,
	"CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22,
	"GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30,
	"KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20,
	"MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22,
	"RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26,
	"UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

// account finds the IBAN that begins here: the country's length, letters and digits with single spaces or dashes between groups, and
// the check digits (mod 97).
func (c *scanner) account(at int) {
	if !isAlpha(c.text[at]) || !isAlpha(c.text[at+1]) || at > 0 && wordByte[c.text[at-1]] {
		return
	}
	country := [2]byte{c.text[at] &^ 0x20, c.text[at+1] &^ 0x20}
	want := ibans[string(country[:])]
	var chars [34]byte
	n, end := 0, at
	for i := at; i < len(c.text) && n < want; i++ {
		switch b := c.text[i]; {
		case isAlnum(b):
			chars[n] = b
			n++
			end = i + 1
		case (b == ' ' || b == '-') && i == end && i > at:
		default:
			i = len(c.text)
			continue
		}
		if i == len(c.text)-1 {
			c.touch(at)
		}
	}
	if n == 0 || n != want || end < len(c.text) && wordByte[c.text[end]] || !mod97(chars[:n]) {
		return
	}
	c.found(at, end, IBAN)
}

// inAccount reports whether the digits are groups out of the middle of something that is written like an IBAN, though its check digits may be
// wrong: behind a country and two digits, and with more digits to come.
func (f *figures) inAccount(text []byte) bool {
	if !f.dropped || f.at < 5 || text[f.at-1] != f.sep || !isDigit(text[f.at-2]) || !isDigit(text[f.at-3]) {
		return false
	}
	return ibans[string(text[f.at-5:f.at-3])] > 0 && (f.at == 5 || !wordByte[text[f.at-6]])
}

// mod97 checks a number by ISO 7064, MOD 97-10, with the first four characters moved to the end.
func mod97(chars []byte) bool {
	rest := 0
	for i := range chars {
		b := chars[(i+4)%len(chars)]
		switch {
		case isDigit(b):
			rest = (rest*10 + int(b-'0')) % 97
		default:
			rest = (rest*100 + int(b|0x20-'a') + 10) % 97
		}
	}
	return rest == 1
}
