package detect

// hint is a detector of this package's own that a word calls.
type hint uint8

const (
	hintJWT hint = iota + 1
	hintPEM
	hintURL
	hintAuthorization
	hintBearer
	hintBasic
	hintName
	hintCurl
)

// hints are the words, in lower case and at most eight bytes long.
var hints = map[string]hint{
	"eyj": hintJWT, "ewog": hintJWT, "eyai": hintJWT, // {" and {\n and { " in base64
	"-----beg": hintPEM,
	"://":      hintURL,
	"authoriz": hintAuthorization,
	"bearer ":  hintBearer,
	"basic ":   hintBasic,
	"curl ":    hintCurl,
	"password": hintName, "passwd": hintName, "passphra": hintName, "pwd": hintName, "secret": hintName, "token": hintName,
	"apikey": hintName, "api_key": hintName, "api-key": hintName, "api key": hintName, "privatek": hintName, "private_": hintName,
	"private-": hintName, "private.": hintName, "credenti": hintName, "accessk": hintName, "access_k": hintName, "access-k": hintName,
	"access.k": hintName, "account_": hintName, "accountk": hintName,
}

func (c *scanner) own(h hint, at, end int) {
	switch h {
	case hintJWT:
		c.jwt(at)
	case hintPEM:
		c.pem(at)
	case hintURL:
		c.url(at)
	case hintAuthorization:
		c.authorization(at)
	case hintBearer, hintBasic:
		c.scheme(h, at, end)
	case hintCurl:
		c.curl(at)
	case hintName:
		c.pair(at)
	}
}

// jwt finds the compact form: three parts, of which the last is empty where nothing is signed, or five, of which the second may be
// empty (RFC 7516, section 7.1). What is cut off behind the second part is one as well.
func (c *scanner) jwt(at int) {
	const least = 12 // {"alg":""} is longer
	if c.text[at] != 'e' || at > 0 && base64Byte[c.text[at-1]] && c.text[at-1] != '=' || c.covered(at) {
		return
	}
	end := run(c.text, at, &base64Byte)
	if end-at < least {
		return
	}
	parts := 1
	for parts < 5 && end < len(c.text) && c.text[end] == '.' {
		next := run(c.text, end+1, &base64Byte)
		if parts == 1 && next-end-1 < 4 && (next >= len(c.text) || c.text[next] != '.') {
			return
		}
		end = next
		parts++
	}
	if parts > 1 {
		c.found(at, end, JWT)
	}
}
