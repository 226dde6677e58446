//go:build linux

package cases

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
)

// Addresses that look public. They are nobody's here: in the namespace every address is local.
const (
	addrU1 = "93.184.216.34" // api.ok.test
	addrU2 = "93.184.216.35" // what is below wild.test
	addrU3 = "93.184.216.36" // for upstreams that a case speaks for itself
	addrE1 = "185.199.108.66"
)

// arrived is a request that reached some upstream.
type arrived struct {
	at      netip.AddrPort // the address that was connected to
	tls     bool
	proto   string
	method  string
	host    string
	uri     string
	header  http.Header
	body    string
	trailer http.Header
}

// upstreams answers on ports 80 and 443 of every address, and remembers what came.
type upstreams struct {
	pki   *pki
	conns map[uint16]chan net.Conn

	mu       sync.Mutex
	requests []arrived
	handlers map[string]http.Handler // by host
	speakers map[netip.AddrPort]func(net.Conn)
}

func newUpstreams(t *testing.T, p *pki) *upstreams {
	t.Helper()
	u := &upstreams{pki: p, conns: map[uint16]chan net.Conn{80: make(chan net.Conn), 443: make(chan net.Conn)}}
	u.reset()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s := &http.Server{
		Handler: u, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Protocols: &protocols,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{p.leaf}, NextProtos: []string{"h2", "http/1.1"}},
	}
	t.Cleanup(func() { _ = s.Close() })
	for port, conns := range u.conns {
		ln, err := net.Listen("tcp", net.JoinHostPort("", map[uint16]string{80: "80", 443: "443"}[port]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		sub := &handedListener{conns: conns, addr: ln.Addr(), closed: make(chan struct{})}
		go u.accept(ln, sub)
		if port == 443 {
			go func() { _ = s.ServeTLS(sub, "", "") }()
		} else {
			go func() { _ = s.Serve(sub) }()
		}
	}
	return u
}

// accept hands each connection to the speaker for the address that it came to, else to the server.
func (u *upstreams) accept(ln net.Listener, server *handedListener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		speak := u.speakers[localAddr(c)]
		u.mu.Unlock()
		if speak != nil {
			go func() { defer func() { _ = c.Close() }(); speak(c) }()
			continue
		}
		select {
		case server.conns <- c:
		case <-server.closed:
			_ = c.Close()
		}
	}
}

func localAddr(c net.Conn) netip.AddrPort {
	ap := c.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

type handedListener struct {
	conns  chan net.Conn
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *handedListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *handedListener) Addr() net.Addr { return l.addr }

func (u *upstreams) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests, u.handlers, u.speakers = nil, map[string]http.Handler{}, map[netip.AddrPort]func(net.Conn){}
}

// handle lets a case answer for one host.
func (u *upstreams) handle(host string, h http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.handlers[host] = h
}

// speak lets a case have the connections to one address and port.
func (u *upstreams) speak(addrPort string, f func(net.Conn)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.speakers[netip.MustParseAddrPort(addrPort)] = f
}

// arrivals returns the requests so far.
func (u *upstreams) arrivals() []arrived {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]arrived(nil), u.requests...)
}

func (u *upstreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	u.mu.Lock()
	h := u.handlers[r.Host]
	i := len(u.requests)
	u.requests = append(u.requests, arrived{
		at: local.AddrPort(), tls: r.TLS != nil, proto: r.Proto, method: r.Method, host: r.Host, uri: r.RequestURI, header: r.Header.Clone(),
	})
	u.mu.Unlock()
	if h != nil {
		h.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	u.mu.Lock()
	if i < len(u.requests) {
		u.requests[i].body, u.requests[i].trailer = string(body), r.Trailer.Clone()
	}
	u.mu.Unlock()
	if err == nil {
		_, _ = io.WriteString(w, "reached "+r.Host)
	}
}
