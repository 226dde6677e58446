package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// retransmitAfter is how long one DNS server has to answer one UDP query. The resolver asks each server twice (the
// default of resolv.conf), so that a lost packet costs two seconds and a dead resolver is known in less than five.
const retransmitAfter = 2 * time.Second

// Placeholder is the address that the sidecar's own name server gives a tool for every allowed name, of RFC 5737: it leads nowhere,
// should a connection to it not be redirected.
var Placeholder = netip.MustParseAddr("192.0.2.1")

// askAgain is how often a name is asked for again whose answer holds Placeholder. The kernel remembers for up to two minutes that what a
// tool sent from a UDP port to a DNS server was redirected to the sidecar's own; a query of the sidecar that happens to come from the same
// port goes the same way. The next one has another port.
const askAgain = 3

// NewResolver returns a resolver in pure Go that asks server ("ip:port"; empty: the system's), names being absolute so
// that no search domain is tried. The C library would read "127.1" and "0x7f.1" as addresses; Go's resolver does not.
func NewResolver(server string) *net.Resolver {
	var d net.Dialer
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			conn, err := d.DialContext(ctx, network, address)
			if udp, ok := conn.(*net.UDPConn); ok {
				return hastyConn{udp, retransmitAfter}, nil
			}
			return conn, err
		},
	}
}

// hastyConn is a UDP connection to a DNS server whose deadline is never further away than its patience, because the
// resolver takes its own from resolv.conf only. It embeds the concrete type: by the net.PacketConn in it the resolver
// knows to frame queries for UDP.
type hastyConn struct {
	*net.UDPConn
	patience time.Duration
}

// SetDeadline sets the deadline to t or to what the patience allows, whichever is sooner.
func (c hastyConn) SetDeadline(t time.Time) error {
	if soon := time.Now().Add(c.patience); t.IsZero() || t.After(soon) {
		t = soon
	}
	return c.UDPConn.SetDeadline(t)
}

// lookup returns the addresses of a canonical name, asking once. A canonical host that is an address is its own answer.
func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if isAddress(host) {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return nil, &net.DNSError{Err: "neither a name nor an address", Name: host, IsNotFound: true}
		}
		return []netip.Addr{addr}, nil
	}
	if host == "" || d.Resolver == nil {
		return nil, &net.DNSError{Err: "no name or no resolver", Name: host, IsNotFound: true}
	}
	for n := 0; ; n++ {
		found, err := d.Resolver.LookupNetIP(ctx, "ip", absolute(host))
		if n == askAgain || !slices.Contains(found, Placeholder) {
			return found, err
		}
	}
}

// absolute returns a name that no search domain is appended to (RFC 1034 section 3.1).
func absolute(name string) string {
	if strings.HasSuffix(name, ".") {
		return name
	}
	return name + "."
}
