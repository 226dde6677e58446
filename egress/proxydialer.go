package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// ProxyDialer connects to names for tools through a proxy, by CONNECT (RFC 9110 section 9.3.6), and to nothing else. It
// has the methods of Dialer. Host and Port name the proxy; Host is canonical.
//
// A target is judged before the proxy is asked: an address as Dialer judges it, a name by every address that the
// resolver knows for it. A name that the resolver does not know is asked for as it is: then the name is all that was
// checked, and the proxy resolves it. A resolver that fails is not one that does not know: the dial fails.
type ProxyDialer struct {
	Dialer *Dialer // judges targets and finds the proxy; its timeout covers the whole dial, the proxy's answer included
	Host   string
	Port   uint16

	// Authorize appends the value of Proxy-Authorization for the proxy to b. It is called once for each dial; nil sends
	// none. Its error must not quote the value.
	Authorize func(b []byte) ([]byte, error)
}

// Dial has the proxy connect to host, which is canonical, and returns the connection, of which nothing has been read
// beyond the header of the proxy's answer. at may be nil; it counts connections to the proxy as dialled. Errors:
// *AddressError and *net.DNSError about the target; *ProxyError about the proxy.
func (d *ProxyDialer) Dial(ctx context.Context, tool, host string, port uint16, at *Attempts) (*net.TCPConn, error) {
	if at == nil {
		at = new(Attempts)
	}
	if d.Dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Dialer.Timeout)
		defer cancel()
	}
	if err := d.judge(ctx, tool, host, port, at); err != nil {
		return nil, err
	}
	request, err := connectRequest(host, port, d.authorization())
	if err != nil {
		return nil, &ProxyError{Reason: ProxyCredentials, Err: err}
	}
	conn, err := connectProxy(ctx, d.Dialer, d.Host, d.Port, at)
	if err != nil {
		return nil, &ProxyError{Reason: ProxyUnreachable, Err: err}
	}
	if _, err := openTunnel(ctx, conn, request); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Check resolves host and judges it as Dial does, and connects to nothing. Errors: *AddressError, *net.DNSError.
func (d *ProxyDialer) Check(ctx context.Context, tool, host string, port uint16) error {
	return d.judge(ctx, tool, host, port, new(Attempts))
}

// judge returns nil if the proxy may be asked for host. The proxy is not ours and may read "127.1" as an address, or a
// line break as the next header; so whatever is not in canonical form ends here.
func (d *ProxyDialer) judge(ctx context.Context, tool, host string, port uint16, at *Attempts) error {
	if canonical, err := ParseHost(host); err != nil || canonical != host || port == 0 {
		return &AddressError{Reason: reasonInvalid}
	}
	found, err := d.Dialer.lookup(ctx, host)
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound && d.Dialer.Resolver != nil {
		if isLocalhost(host) {
			at.Refused.Add(1)
			return &AddressError{Reason: special(netip.IPv6Loopback()).name}
		}
		return nil
	}
	if err != nil {
		return err
	}
	at.Resolved.Add(int32(len(found)))
	_, err = d.Dialer.judgeAll(tool, found, port, at)
	return err
}

// isLocalhost tells the names of RFC 6761 section 6.3, whatever a resolver says of them.
func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// authorization returns what appends the header field for the proxy.
func (d *ProxyDialer) authorization() func([]byte) ([]byte, error) {
	if d.Authorize == nil {
		return nil
	}
	return func(b []byte) ([]byte, error) { return d.Authorize(append(b, "\r\nProxy-Authorization: "...)) }
}

// connectProxy connects to a proxy. The operator named it, so it may be on a private network; it is never the sidecar.
func connectProxy(ctx context.Context, d *Dialer, host string, port uint16, at *Attempts) (*net.TCPConn, error) {
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	peers := make([]netip.AddrPort, len(found))
	for i, addr := range found {
		peers[i] = netip.AddrPortFrom(addr.Unmap(), port)
	}
	return race(ctx, attemptOrder(peers), connector(d.Addresses.JudgeProxy, at))
}

// connectRequest returns what asks a proxy for a connection to a canonical host, with the header fields that more appends; nil
// appends none.
func connectRequest(host string, port uint16, more func([]byte) ([]byte, error)) ([]byte, error) {
	authority := Target{Host: host, Port: port}.HostPort()
	b := make([]byte, 0, 512)
	b = append(b, "CONNECT "...)
	b = append(b, authority...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, authority...)
	if more != nil {
		var err error
		if b, err = more(b); err != nil {
			return nil, err
		}
	}
	return append(b, "\r\n\r\n"...), nil
}
