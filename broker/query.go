package broker

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// inQuery is a credential that is the value of a query parameter.
type inQuery struct {
	name  string
	value redact.Secret
}

// checkQueryName takes names that are written the same in every encoding.
func checkQueryName(name string) error {
	for _, c := range []byte(name) {
		if !unreserved(c) {
			return fmt.Errorf("query %q is not a parameter name of letters, digits and - . _ ~", name)
		}
	}
	if name == "" || len(name) > 64 {
		return fmt.Errorf("query %q is not a parameter name of 1 to 64 characters", name)
	}
	return nil
}

// unreserved is RFC 3986, section 2.3.
func unreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '.' || c == '_' || c == '~'
}

func (*inQuery) body(*http.Request) int64 { return 0 }

// place sets the parameter once, after whatever else the query holds.
func (p *inQuery) place(out *http.Request, body []byte) ([]byte, Reason) {
	if out.URL == nil {
		return nil, Internal
	}
	rest := withoutParameter(out.URL.RawQuery, p.name)
	if rest != "" {
		rest += "&"
	}
	out.URL.RawQuery, out.URL.ForceQuery = rest+p.name+"="+escapeQuery(p.value.Reveal()), false
	return body, ""
}

// withoutParameter returns a query without the parameters that some server may read under this name. The rest stays as it is.
func withoutParameter(query, name string) string {
	var b strings.Builder
	want := foldParameter(name)
	for rest := query; rest != ""; {
		at := strings.IndexAny(rest, "&;") // some servers still part at semicolons
		if at < 0 {
			if foldParameter(nameOf(rest)) != want {
				b.WriteString(rest)
			}
			break
		}
		if foldParameter(nameOf(rest[:at])) != want {
			b.WriteString(rest[:at+1])
		}
		rest = rest[at+1:]
	}
	return strings.TrimRight(b.String(), "&;")
}

func nameOf(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return name
}

// foldParameter returns what a name becomes in servers: percent-decoded, without regard to case, and as PHP does it, which drops
// leading spaces, takes a bracket for the begin of an index, and makes underscores of dots and spaces.
func foldParameter(name string) string {
	name = strings.TrimLeft(decodePercent(name, true), " \t\r\n\v\f\x00")
	if i := strings.IndexAny(name, "[\x00"); i >= 0 {
		name = name[:i]
	}
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_").Replace(name))
}

// decodePercent decodes what can be decoded and leaves the rest, as lenient servers do.
func decodePercent(s string, plus bool) string {
	if strings.IndexByte(s, '%') < 0 && !(plus && strings.IndexByte(s, '+') >= 0) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b = append(b, fromHex(s[i+1])<<4|fromHex(s[i+2]))
			i += 2
		case c == '%' && i+5 < len(s) && (s[i+1] == 'u' || s[i+1] == 'U') && s[i+2] == '0' && s[i+3] == '0' && isHex(s[i+4]) && isHex(s[i+5]): // IIS
			b = append(b, fromHex(s[i+4])<<4|fromHex(s[i+5]))
			i += 5
		case c == '+' && plus:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func fromHex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
