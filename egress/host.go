package egress

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// HostError says why a text is not a host or an authority. It never quotes the text, which may hold a password.
type HostError string

// The reasons of a HostError. They are a closed set.
const (
	hostEmpty      HostError = "the host is empty"
	hostUserInfo   HostError = "user info is not allowed"
	hostNonASCII   HostError = "only ASCII is allowed; write an international name in its A-label form"
	hostCharacter  HostError = "a character is not allowed in a host"
	hostEmptyLabel HostError = "a label is empty"
	hostLongLabel  HostError = "a label is longer than 63 bytes"
	hostLongName   HostError = "the name is longer than 253 bytes"
	hostLabelEdge  HostError = "a label begins or ends with a hyphen or an underscore"
	hostALabel     HostError = "an A-label is not valid"
	hostNumber     HostError = "the last label is a number and the whole is not a canonical IPv4 address"
	hostBracket    HostError = "brackets are for an IPv6 address only"
	hostIPv6       HostError = "the text has a colon and is not an IPv6 address"
	hostZone       HostError = "an address zone is not allowed"
	portMissing    HostError = "the port is missing"
	portSpelling   HostError = "the port is not a decimal number from 1 to 65535"
)

// Error returns the reason.
func (e HostError) Error() string { return string(e) }

const (
	maxName  = 253 // RFC 1035 section 2.3.4, as text without the trailing dot
	maxLabel = 63
	maxIPv6  = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
)

// ParseHost returns the canonical form of a host: ASCII only, lower case, one trailing dot dropped. User info, a zone,
// an empty label, an over-long label (63) or name (253), an invalid A-label, a bracketed name and a numeric or hex last
// label are errors of type HostError. A hyphen or an underscore may stand inside a label only; the underscore is no
// hostname character (RFC 1123 section 2.1) but services in the wild have it.
//
// An IPv4 address is accepted in its canonical spelling only ("127.1", "0x7f.1", "012.0.0.1" and "127.0.0.1." are
// errors, because resolvers differ on them). An IPv6 address, with or without brackets, is accepted in any spelling of
// RFC 4291 section 2.2 and returned in that of RFC 5952; IPv4-mapped IPv6 becomes its IPv4 address.
//
// A text that is canonical already is returned without allocating.
func ParseHost(s string) (string, error) {
	if s == "" {
		return "", hostEmpty
	}
	if s[0] == '[' {
		if len(s) < 2 || s[len(s)-1] != ']' || !isIPv6(s) {
			return "", hostBracket
		}
		return parseIPv6(s[1 : len(s)-1])
	}
	if isIPv6(s) {
		return parseIPv6(s)
	}
	return parseName(s)
}

// isIPv6 tells an IPv6 address from a name and an IPv4 address; of the three only the first has a colon.
func isIPv6(host string) bool { return strings.IndexByte(host, ':') >= 0 }

// IsAddress reports whether a canonical host is an address and not a name.
func IsAddress(host string) bool { return isAddress(host) }

func isAddress(host string) bool { return isIPv6(host) || endsInNumber(host) }

func parseIPv6(s string) (string, error) {
	switch {
	case strings.IndexByte(s, '@') >= 0:
		return "", hostUserInfo
	case strings.IndexByte(s, '%') >= 0:
		return "", hostZone
	case len(s) > maxIPv6:
		return "", hostIPv6
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return "", hostIPv6
	}
	var buf [maxIPv6]byte
	text := addr.Unmap().AppendTo(buf[:0])
	if string(text) == s {
		return s, nil
	}
	return string(text), nil
}

func parseName(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if len(name) > maxName {
		return "", hostLongName
	}
	upper, start := false, 0
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '.' {
			if err := checkLabel(name[start:i]); err != "" {
				return "", err
			}
			start = i + 1
			continue
		}
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case 'A' <= c && c <= 'Z':
			upper = true
		default:
			return "", badByte(c)
		}
	}
	if upper {
		name = strings.ToLower(name)
	}
	if strings.Contains(name, "xn--") && !validALabels(name) {
		return "", hostALabel
	}
	if endsInNumber(name) {
		// What ends in a number is an address to some resolver: inet_aton reads "127.1" and "0x7f.1", a URL parser too.
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is4() || len(name) != len(s) {
			return "", hostNumber
		}
	}
	return name, nil
}

func checkLabel(label string) HostError {
	switch {
	case label == "":
		return hostEmptyLabel
	case len(label) > maxLabel:
		return hostLongLabel
	}
	if first, last := label[0], label[len(label)-1]; first == '-' || first == '_' || last == '-' || last == '_' {
		return hostLabelEdge
	}
	return ""
}

func badByte(c byte) HostError {
	switch {
	case c == '@':
		return hostUserInfo
	case c >= 0x80:
		return hostNonASCII
	}
	return hostCharacter
}

// validALabels reports whether each label that claims to be an A-label is one (RFC 5890 section 2.3.2.1). Labels are
// checked one by one, since idna refuses the underscores and inner double hyphens that other labels may have.
func validALabels(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if !strings.HasPrefix(label, "xn--") {
			continue
		}
		if _, err := idna.Lookup.ToUnicode(label); err != nil {
			return false
		}
	}
	return true
}

// endsInNumber reports whether the last label of a lower-case name is decimal, octal or hex digits: the test by which
// the WHATWG URL standard (section 3.5, "ends in a number") tells an IPv4 address from a name.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
