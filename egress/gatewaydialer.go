package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"strings"
)

// GatewayDialer connects to targets through an egress gateway: a proxy that is ours, is reached over TLS, and decides again. Host and
// Port name the gateway; Host is canonical.
//
// An address is judged before the gateway is asked, as Dialer judges it. A name is asked for as it is: the gateway resolves it and
// judges what it leads to, so that only the gateway's own name needs a resolver here.
type GatewayDialer struct {
	Dialer *Dialer // judges addresses and finds the gateway; its timeout covers the whole dial, handshake and answer included
	Host   string
	Port   uint16

	// TLS returns what the gateway is verified by and what it is shown. It is called once for each dial, and what it returns is not
	// changed. It must verify the gateway: what is sent to it are tokens.
	TLS func() (*tls.Config, error)
}

// GatewayConn is a connection that the gateway made, inside the TLS that leads to it.
type GatewayConn struct {
	*tls.Conn
	ID string // of the gateway's decision; empty: it did not say
}

// Dial has the gateway connect to host, which is canonical, for who is described by the header fields that ask appends: each with
// "\r\n" before it, and none after the last. at may be nil; it counts connections to the gateway as dialled. Errors: *AddressError
// about the target; *ProxyError, whose Gateway is set, about the gateway or from it.
func (d *GatewayDialer) Dial(ctx context.Context, tool, host string, port uint16, at *Attempts, ask func(b []byte) ([]byte, error)) (*GatewayConn, error) {
	if at == nil {
		at = new(Attempts)
	}
	if d.Dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Dialer.Timeout)
		defer cancel()
	}
	if err := d.judge(tool, host, port, at); err != nil {
		return nil, err
	}
	conn, err := d.open(ctx, host, port, at, ask)
	if err != nil {
		err.Gateway = true
		return nil, err
	}
	return conn, nil
}

func (d *GatewayDialer) open(ctx context.Context, host string, port uint16, at *Attempts, ask func(b []byte) ([]byte, error)) (*GatewayConn, *ProxyError) {
	conf, err := d.TLS()
	if err != nil {
		return nil, &ProxyError{Reason: ProxyCredentials, Err: err}
	}
	request, err := connectRequest(host, port, ask)
	if err != nil {
		return nil, &ProxyError{Reason: ProxyCredentials, Err: err}
	}
	tcp, err := connectProxy(ctx, d.Dialer, d.Host, d.Port, at)
	if err != nil {
		return nil, &ProxyError{Reason: ProxyUnreachable, Err: err}
	}
	conn := tls.Client(tcp, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, handshakeError(ctx, err)
	}
	a, failed := openTunnel(ctx, conn, request)
	if failed != nil {
		_ = tcp.Close()
		failed.Code, failed.ID, failed.RetryAfter = a.denial, a.decision, a.retryAfter
		return nil, failed
	}
	return &GatewayConn{Conn: conn, ID: a.decision}, nil
}

// handshakeError tells a gateway that is not there, or left in the middle, from one whose certificate or TLS will not do.
func handshakeError(ctx context.Context, err error) *ProxyError {
	var alert tls.AlertError
	var unverified *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case ctx.Err() != nil:
		return &ProxyError{Reason: ProxyUnreachable, Err: ctx.Err()}
	case errors.As(err, &unverified), errors.As(err, &alert), errors.As(err, &record):
		return &ProxyError{Reason: ProxyTLS, Err: err}
	case strings.HasPrefix(err.Error(), "remote error: tls: "), strings.HasPrefix(err.Error(), "tls: "): // crypto/tls has no type for these
		return &ProxyError{Reason: ProxyTLS, Err: err}
	default:
		return &ProxyError{Reason: ProxyUnreachable, Err: err}
	}
}

// Check judges host as Dial does, and contacts nobody. Errors: *AddressError.
func (d *GatewayDialer) Check(_ context.Context, tool, host string, port uint16) error {
	return d.judge(tool, host, port, new(Attempts))
}

func (d *GatewayDialer) judge(tool, host string, port uint16, at *Attempts) error {
	if canonical, err := ParseHost(host); err != nil || canonical != host || port == 0 {
		return &AddressError{Reason: reasonInvalid}
	}
	if isLocalhost(host) {
		at.Refused.Add(1)
		return &AddressError{Reason: special(netip.IPv6Loopback()).name}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		_, err = d.Dialer.judgeAll(tool, []netip.Addr{addr}, port, at)
		return err
	}
	return nil
}

// maxRetryAfter is how many seconds a gateway may ask its callers to wait.
const maxRetryAfter = 3600
