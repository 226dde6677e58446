package egress

import "strings"

// ParseAuthority parses "host" or "host:port" as it stands in a CONNECT target, a Host header or a URL (RFC 3986
// section 3.2 without user info). An IPv6 address must be in brackets. The port is decimal, 1 to 65535, without sign or
// leading zero. defaultPort 0 makes a missing port an error. Every error is a HostError.
func ParseAuthority(s string, defaultPort uint16) (host string, port uint16, err error) {
	text, portText, hasPort := cutPort(s)
	if isIPv6(text) && text[0] != '[' {
		return "", 0, hostBracket
	}
	if host, err = ParseHost(text); err != nil {
		return "", 0, err
	}
	switch {
	case hasPort:
		port, err = parsePort(portText)
	case defaultPort == 0:
		err = portMissing
	default:
		port = defaultPort
	}
	if err != nil {
		return "", 0, err
	}
	return host, port, nil
}

// cutPort splits at the last colon outside of brackets. The brackets stay with the host.
func cutPort(s string) (host, port string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i < strings.LastIndexByte(s, ']') {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func parsePort(s string) (uint16, error) {
	if s == "" || len(s) > len("65535") || s[0] == '0' {
		return 0, portSpelling
	}
	var n uint32
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, portSpelling
		}
		n = n*10 + uint32(s[i]-'0')
	}
	if n > 65535 {
		return 0, portSpelling
	}
	return uint16(n), nil
}
