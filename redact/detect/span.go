package detect

import (
	"cmp"
	"slices"
)

// Span is a part of a text that is not to be shown: the bytes from Start to before End, and why.
type Span struct {
	Start, End int
	Class      string
}

// The classes of spans. All up to SignedURL are always looked for; the others are personal data, and are looked for where Options
// names them.
const (
	Token      = "token"       // a vendor's token or key, by one of gitleaks' rules
	Credential = "credential"  // the value after a secret's name, or of an Authorization scheme
	JWT        = "jwt"         // JSON Web Token or JSON Web Encryption in compact form (RFC 7515, RFC 7516)
	PrivateKey = "private_key" // a PEM block (RFC 7468), whole
	Userinfo   = "userinfo"    // what stands before "@" in a URL (RFC 3986, section 3.2.1)
	SignedURL  = "signed_url"  // a query parameter that lets its bearer in

	Card       = "card"        // payment card: Luhn's digit, and an issuer's range
	IBAN       = "iban"        // bank account: ISO 13616, with its country's length and check digits
	Email      = "email"       // address of mail
	Phone      = "phone"       // telephone: North American with separators, or international with "+"
	SSN        = "ssn"         // United States social security number
	IP         = "ip"          // address, IPv4 or IPv6
	MAC        = "mac"         // hardware address
	Wallet     = "wallet"      // Bitcoin address, with its checksum
	NationalID = "national_id" // numbers of persons in several countries; see ids.go
)

// PII lists the classes that Options can name.
var PII = []string{Card, IBAN, Email, Phone, SSN, IP, MAC, Wallet, NationalID}

// merge sorts spans and joins those that overlap; the one that begins first, and of those the longest, gives the class.
func merge(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	n := 0
	for _, s := range spans[1:] {
		if last := &spans[n]; s.Start < last.End {
			last.End = max(last.End, s.End)
			continue
		}
		n++
		spans[n] = s
	}
	return spans[:n+1]
}
