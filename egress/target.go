package egress

// Target is where a call goes. Host is canonical (ParseHost), Port explicit. Method and Path are empty for a tunnel.
type Target struct {
	Scheme string // "http", "https", or "" for a tunnel
	Host   string // lower-case A-label name without trailing dot, or the canonical text of an address, unbracketed
	Port   uint16
	Method string
	Path   string // escaped path of the request, without query, at least "/"
}

// HostPort returns "host:port", with brackets around an IPv6 address.
func (t Target) HostPort() string { panic("contract") }

// ParseHost returns the canonical form of a host: ASCII only, lower case, one trailing dot dropped, no user info, zone,
// empty label, over-long label or name, underscore allowed only where hostnames in the wild have it, no numeric or hex last label.
// An address is accepted in its canonical spelling only ("127.1", "0x7f.1" and "012.0.0.1" are errors), IPv6 with or
// without brackets; IPv4-mapped IPv6 becomes its IPv4 address; a bracketed name is an error.
func ParseHost(s string) (string, error) { panic("contract") }

// ParseAuthority parses "host" or "host:port" as it stands in a CONNECT target, a Host header or a URL. The port is
// decimal, 1 to 65535, without sign or leading zero. defaultPort 0 makes a missing port an error.
func ParseAuthority(s string, defaultPort uint16) (host string, port uint16, err error) {
	panic("contract")
}
