package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// guarded is a client's connection of HTTP/1 whose server may refuse what it reads. net/http answers a request that it cannot
// parse before any handler runs, with a page of its own, and tells nobody. What is written while a request is being read can only
// be such an answer; it becomes a refusal like any other, with a code and a record.
//
// Of HTTP/2 nothing of the kind can be seen: the server resets a malformed stream, or answers 431, within frames of its own.
type guarded struct {
	net.Conn
	early   []byte      // of what the client sent, read already
	handled atomic.Bool // a handler has the request; until it has, one is being read
	refuse  func(conn net.Conn, status int)
	refused bool // the server's own words are swallowed from here on; it closes the connection
}

// guardedTLS lets net/http see that there is TLS below.
type guardedTLS struct {
	*guarded
	tls *tls.Conn
}

// ConnectionState is what net/http takes for the request's TLS.
func (g *guardedTLS) ConnectionState() tls.ConnectionState { return g.tls.ConnectionState() }

// Read gives back first what was read too early.
func (g *guarded) Read(p []byte) (int, error) {
	if len(g.early) > 0 {
		n := copy(p, g.early)
		g.early = g.early[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}

func (g *guarded) Write(p []byte) (int, error) {
	if g.handled.Load() {
		return g.Conn.Write(p)
	}
	if !g.refused {
		g.refused = true
		g.refuse(g.Conn, statusOf(p))
	}
	return len(p), nil
}

// CloseWrite is what net/http calls before it waits for a client that is still sending.
func (g *guarded) CloseWrite() error {
	if w, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// guardOf returns a connection's guard, or nil.
func guardOf(conn net.Conn) *guarded {
	switch g := conn.(type) {
	case *guarded:
		return g
	case *guardedTLS:
		return g.guarded
	}
	return nil
}

// unguarded returns what a guard was put around.
func unguarded(conn net.Conn) net.Conn {
	if g := guardOf(conn); g != nil {
		return g.Conn
	}
	return conn
}

// noteState is for a server's ConnState hook, which net/http calls when it has answered a request and waits for the next.
func noteState(conn net.Conn, state http.ConnState) {
	if g := guardOf(conn); g != nil && state == http.StateIdle {
		g.handled.Store(false)
	}
}

// pass notes that the connection's request has reached a handler.
func (g *guarded) pass() {
	if g != nil {
		g.handled.Store(true)
	}
}

// statusOf reads an answer's status line. One that is none stands for a malformed request.
func statusOf(answer []byte) int {
	_, rest, _ := bytes.Cut(answer, []byte(" "))
	if len(rest) >= 3 {
		if status, err := strconv.Atoi(string(rest[:3])); err == nil && status >= 400 && status <= 599 {
			return status
		}
	}
	return http.StatusBadRequest
}

// refuseUnread answers and records a request that the server could not make one of. t is the tunnel that it came through, or nil.
func (p *Proxy) refuseUnread(listener string, t *tunnel, conn net.Conn, status int) {
	c := p.begin(listener, "request")
	if t != nil {
		t.requests.Add(1)
		c.rec.Intercepted, c.rec.Tool, c.rec.Host, c.rec.Port = true, t.tool, t.target.Host, t.target.Port
	}
	d := deny(BadRequest, "The request is not well-formed HTTP.", nil)
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		d = deny(HeaderTooLarge, "The request's header is larger than the sidecar takes.", nil)
	case http.StatusExpectationFailed, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		d = deny(BadRequest, "The request needs what this proxy does not have: "+http.StatusText(status)+".", nil)
		d.Status = status
	}
	c.refuseConn(conn, d)
}

// guardedListener puts a guard around each connection of a listener that serves HTTP.
type guardedListener struct {
	net.Listener
	refuse func(conn net.Conn, status int)
}

// Accept returns a *guarded.
func (l *guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guarded{Conn: conn, refuse: l.refuse}, nil
}

type guardKey struct{}

func withGuard(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guardKey{}, guardOf(conn))
}
