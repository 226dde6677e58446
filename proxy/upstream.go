package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

// upstream is one tool's way out: its own connection pools, since a pooled connection is shared by the requests of
// its pool and was judged for one tool.
type upstream struct {
	dialer dialer
	h1     *h1Pool
	ws     *http.Transport // for upgrades
	h2     *h2Way          // for h2 clients

	certified certified // connections made with client certificates
}

// dialer connects to targets for tools: directly, through the operator's upstream proxy, or through an egress gateway.
type dialer interface {
	Dial(ctx context.Context, tool, host string, port uint16, at *egress.Attempts) (duplex, error)
	Check(ctx context.Context, tool, host string, port uint16) error
}

// duplex is a connection that can say that nothing more will come: a *net.TCPConn, or TLS over one.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// plainDialer is a dialer whose connections are sockets of the system.
type plainDialer struct {
	tcp interface {
		Dial(ctx context.Context, tool, host string, port uint16, at *egress.Attempts) (*net.TCPConn, error)
		Check(ctx context.Context, tool, host string, port uint16) error
	}
}

// Dial connects, or returns a nil that is no connection.
func (d plainDialer) Dial(ctx context.Context, tool, host string, port uint16, at *egress.Attempts) (duplex, error) {
	conn, err := d.tcp.Dial(ctx, tool, host, port, at)
	if err != nil {
		return nil, err // not conn: a nil *net.TCPConn is no nil duplex
	}
	return conn, nil
}

// Check judges as Dial does, and connects to nothing.
func (d plainDialer) Check(ctx context.Context, tool, host string, port uint16) error {
	return d.tcp.Check(ctx, tool, host, port)
}

// newDialer returns the one that the configuration asks for, without a gateway. It contacts nobody.
func newDialer(e *config.Egress, direct *egress.Dialer) (dialer, error) {
	p := e.UpstreamProxy
	if p.Host == "" {
		return plainDialer{direct}, nil
	}
	d := &egress.ProxyDialer{Dialer: direct, Host: p.Host, Port: p.Port}
	if p.CredentialsFile != "" {
		file, err := broker.OpenBasicFile(p.CredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("egress.upstreamProxyCredentialsFile: %s: %w", p.CredentialsFile, err)
		}
		d.Authorize = file.AppendHeader
	}
	return plainDialer{d}, nil
}

type attemptsKey struct{}

func newUpstream(tool string, d dialer, roots *x509.CertPool, limits config.Limits) *upstream {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		host, portText, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil {
			return nil, err
		}
		at, _ := ctx.Value(attemptsKey{}).(*egress.Attempts)
		return d.Dial(ctx, tool, host, uint16(port), at)
	}
	u := &upstream{dialer: d, certified: certified{tool: tool, dialer: d, roots: roots, limits: limits}}
	u.ws = newTransport(dial, roots, limits)
	u.ws.Protocols.SetHTTP1(true)
	u.h1 = newH1Pool(tool, d, u.ws.TLSClientConfig, limits)
	u.h2 = newH2Way(u.h1, dial, roots, limits)
	return u
}

// newTransport sets everything whose default is not for a gate: no proxy from the environment, nothing decompressed,
// every wait bounded but that for the response, which the call's own watchdog bounds.
func newTransport(dial func(context.Context, string, string) (net.Conn, error), roots *x509.CertPool, limits config.Limits) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)},
		TLSHandshakeTimeout:    limits.DialTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: int64(limits.MaxHeaderBytes),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// retire ends what idles; running calls keep what they hold.
func (u *upstream) retire() {
	u.h1.retire()
	u.ws.CloseIdleConnections()
	u.h2.streams.CloseIdleConnections()
	u.certified.retire()
}
