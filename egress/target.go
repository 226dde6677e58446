package egress

import "strconv"

// Target is where a call goes. Host is canonical (ParseHost), Port explicit. Method and Path are empty for a tunnel.
type Target struct {
	Scheme string // "http", "https", or "" for a tunnel
	Host   string // lower-case A-label name without trailing dot, or the canonical text of an address, unbracketed
	Port   uint16
	Method string
	Path   string // escaped path of the request, without query, at least "/"
}

// HostPort returns "host:port", with brackets around an IPv6 address.
func (t Target) HostPort() string {
	b := make([]byte, 0, len(t.Host)+len("[]:65535"))
	if isIPv6(t.Host) {
		b = append(b, '[')
		b = append(b, t.Host...)
		b = append(b, ']')
	} else {
		b = append(b, t.Host...)
	}
	b = append(b, ':')
	return string(strconv.AppendUint(b, uint64(t.Port), 10))
}
