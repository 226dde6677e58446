package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

// tunnel is an intercepted connection: who opened it and where to. Its requests are calls of their own.
type tunnel struct {
	open
	listener           string
	target             egress.Target
	captured           bool
	proxyAuthorization []string
	proxyCredentials   *proxyCredentials
	connect            *call // the CONNECT, recorded only when no request came of it
	stop               func() bool
	cause              atomic.Pointer[error]    // why it was cut from here
	h1                 atomic.Pointer[h1Client] // while requests are plain
	leaving            atomic.Bool              // the sidecar stops
	resets             atomic.Int64             // how much oftener than answered (see tally)
	misnamed           bool                     // the hello named another host; written and read on the connection's goroutine
	ended              sync.Once
}

// taggedConn is a client connection that remembers its tunnel and gives back the bytes that were read too early.
type taggedConn struct {
	net.Conn
	tunnel *tunnel
	early  []byte
}

func (c *taggedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends what is sent to a client that does not speak TLS.
func (c *taggedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

var (
	errSNI = errors.New("SNI names another host than the CONNECT")
)

// innerServer is our own net/http server for what is inside intercepted tunnels: limits, timeouts, h1 and h2 are its. Plain requests of h1
// are an h1Client's.
type innerServer struct {
	proxy   *Proxy
	server  *http.Server
	conns   chan net.Conn
	closed  chan struct{}
	tls     *tls.Config
	timeout time.Duration // for the first byte
	idle    time.Duration
}

type tunnelKey struct{}

func newInnerServer(p *Proxy, limits config.Limits) *innerServer {
	s := &innerServer{proxy: p, conns: make(chan net.Conn), closed: make(chan struct{}), timeout: limits.HeaderTimeout, idle: limits.IdleTimeout}
	// One config for all tunnels, so that sessions are resumed. A resumption does not ask for the certificate again,
	// so the name is checked where every hello passes.
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", "http/1.0"}, // a client that offers none of these is refused (RFC 7301, section 3.2)
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, h.Conn.(*taggedConn).tunnel.checkSNI(h.ServerName)
		},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.leaves.get(h.Conn.(*taggedConn).tunnel.target.Host)
		},
	}
	s.server = &http.Server{
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * past the gates

		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: limits.HeaderTimeout,
		IdleTimeout:       limits.IdleTimeout,
		MaxHeaderBytes:    limits.MaxHeaderBytes,
		TLSConfig:         s.tls,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(withGuard(ctx, c), tunnelKey{}, tunnelOf(c))
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			noteState(c, state)
			if state == http.StateClosed {
				tunnelOf(c).close(unguarded(c))
			}
		},
	}
	go func() { _ = s.server.Serve(s) }()
	return s
}

func tunnelOf(c net.Conn) *tunnel {
	c = unguarded(c)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.(*taggedConn).tunnel
}

// Accept, Close and Addr make the server's listener: connections come from tunnels.
func (s *innerServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (s *innerServer) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// Addr is of no use to anyone.
func (s *innerServer) Addr() net.Addr { return &net.TCPAddr{} }

func (t *tunnel) checkSNI(name string) error {
	if name == "" { // allowed by TLS; the requests name the host, and must name this one
		return nil
	}
	if host, err := egress.ParseHost(name); err != nil || host != t.target.Host {
		t.misnamed = true
		return errSNI
	}
	return nil
}

// interceptConn accepts the tunnel and hands it to the inner server, once its first byte tells whether it speaks TLS.
func (c *call) interceptConn(conn net.Conn, early []byte, a *ask) {
	t := &tunnel{listener: c.listener.Name, target: c.target, proxyAuthorization: a.proxyAuthorization, connect: c}
	t.tool, t.captured, t.proxyCredentials = c.rec.Tool, a.captured, readProxyCredentials(a.proxyAuthorization)
	t.cut = func(cause error) {
		t.cause.CompareAndSwap(nil, &cause)
		reset(conn)
	}
	t.leave, t.rest = t.endWhenIdle, t.watchClient
	if c.rec.Decision == "allow" && c.tool != nil {
		t.stands = c.stands
	}
	if d := c.proxy.admit(&t.open, c); d != nil {
		c.refuseConn(conn, d)
		return
	}
	c.rec.Intercepted, c.rec.Status = true, http.StatusOK
	c.handed = true
	if ctx := c.ctx; ctx != nil {
		t.stop = context.AfterFunc(ctx, func() { reset(conn) })
	}
	go c.proxy.inner.accept(&taggedConn{Conn: conn, tunnel: t, early: early})
}

// accept runs on a goroutine of its own: it waits for the client's first byte.
func (s *innerServer) accept(c *taggedConn) {
	if !c.tunnel.captured {
		if _, err := c.Conn.Write([]byte(established)); err != nil {
			c.tunnel.abandon(c)
			return
		}
	}
	if len(c.early) == 0 {
		first := make([]byte, 1)
		_ = c.SetReadDeadline(time.Now().Add(s.timeout))
		n, err := c.Conn.Read(first)
		if n == 0 || err != nil {
			c.tunnel.abandon(c)
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		c.early = first
	}
	t := c.tunnel
	guard := &guarded{Conn: c, refuse: func(conn net.Conn, status int) { s.proxy.refuseUnread(t.listener, t, conn, status) }}
	var conn net.Conn = guard
	scheme := "http"
	if c.early[0] == recordHandshake {
		tc := tls.Server(c, s.tls)
		if !s.handshake(tc) {
			_ = tc.Close()
			t.close(tc)
			return
		}
		guard.Conn, conn, scheme = tc, &guardedTLS{guard, tc}, "https"
		if tc.ConnectionState().NegotiatedProtocol == "h2" {
			conn = tc // net/http speaks HTTP/2 on nothing else
		}
	}
	if guardOf(conn) != nil {
		if guard.early = newH1Client(s, t, scheme, guard.Conn).run(); guard.early == nil {
			_ = guard.Conn.Close()
			t.close(guard.Conn)
			return
		}
	}
	select {
	case s.conns <- conn:
	case <-s.closed:
		c.tunnel.abandon(c)
	}
}

func (s *innerServer) handshake(tc *tls.Conn) bool {
	_ = tc.SetDeadline(time.Now().Add(s.timeout))
	err := tc.Handshake()
	_ = tc.SetDeadline(time.Time{})
	return err == nil
}

// recordHandshake is the first byte of a TLS connection (RFC 8446, section 5.1).
const recordHandshake = 0x16

// abandon ends a tunnel that the inner server never saw.
func (t *tunnel) abandon(c *taggedConn) {
	_ = c.Conn.Close()
	t.close(c)
}

// close is called once the connection is gone. A tunnel without a request, such as one whose client does not trust the CA,
// is a call of its own and leaves its record; otherwise the requests are the calls.
func (t *tunnel) close(conn net.Conn) {
	t.ended.Do(func() {
		if t.stop != nil {
			t.stop()
		}
		t.connect.proxy.tunnels.remove(&t.open)
		c := t.connect
		if t.connect.inside.Load() > 0 {
			c.forget()
			return
		}
		if c.ctx != nil && c.ctx.Err() != nil {
			c.cutBy(context.Cause(c.ctx))
		} else if cause := t.cause.Load(); cause != nil {
			c.cutBy(*cause)
		} else if tc, ok := conn.(*tls.Conn); ok && !tc.ConnectionState().HandshakeComplete {
			c.rec.ErrorClass = "client_tls"
			if t.misnamed {
				c.refuse(deny(TargetMismatch, "", errSNI))
			}
		} else {
			c.rec.ErrorClass = "no_request"
		}
		c.finish()
	})
}

// serve carries one request of an intercepted tunnel. It inherits nothing of the tunnel's Allow.
func (s *innerServer) serve(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*tunnel)
	if guard, ok := r.Context().Value(guardKey{}).(*guarded); ok {
		guard.pass()
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	s.carry(r.Context(), t, scheme, w, r)
}

func (s *innerServer) carry(ctx context.Context, t *tunnel, scheme string, w http.ResponseWriter, r *http.Request) {
	t.connect.inside.Add(1)
	t.touch()
	c := s.proxy.begin(t.listener, "request")
	c.rec.Intercepted = true
	defer c.finish()
	defer func() { t.tally(c, r) }()
	defer c.contain()
	c.within = t
	c.serve(ctx, w, r, innerAsk(r, t, scheme))
}

// maxResets is how many requests of one HTTP/2 connection may be reset before they are answered, over half as many as are.
const maxResets = 1000

var errResets = errors.New("too many requests were reset before they were answered")

// tally ends a connection whose client does little but begin requests and reset them (CVE-2023-44487): each costs the upstream a connection,
// and net/http goes on with those that it has not read yet.
func (t *tunnel) tally(c *call, r *http.Request) {
	if r.ProtoMajor != 2 {
		return
	}
	if c.rec.ErrorClass == "client_gone" && c.rec.Status == 0 {
		if t.resets.Add(2) >= 2*maxResets {
			t.cut(errResets)
		}
	} else if n := t.resets.Load(); n > 0 {
		t.resets.CompareAndSwap(n, n-1) // a lost race is one request's credit
	}
}

// answerInside reports whether a refused tunnel is accepted so that the refusal can be read inside: where the config says that
// clients trust our CA, for refusals that policy made of a well-formed target. A captured connection whose caller gave no token may
// give it with each request; nothing is asked or dialled before one has passed.
func (c *call) answerInside(a *ask, d *Denial) bool {
	if a.captured && d.Code == Unauthenticated && c.gates.tokenFiles[c.listener.Name] == nil {
		return true
	}
	return c.gates.snapshot.InTunnel && !c.isGateway() && d.meaning().status == http.StatusForbidden && c.tool != nil
}

// forget ends a call without a record: what it stood for is recorded elsewhere.
func (c *call) forget() {
	c.done = true
	if c.release != nil {
		c.release(nil)
	}
}
