package proxy

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// capture serves a transparent listener: connections that were redirected here on their way to some address. Only the port
// of that address counts. The host is the one that the client names, in the SNI of TLS or the Host of plain HTTP; it is
// judged, resolved and dialled anew, and never the address, behind which a client could put any name.
type capture struct {
	proxy    *Proxy
	listener string
	own      netip.AddrPort
	timeout  time.Duration
	original func(*net.TCPConn) (netip.AddrPort, error) // originalDestination, but for tests without netfilter
}

var (
	errNotCaptured = errors.New("the connection was not redirected; this port is no proxy")
	errNoHost      = errors.New("the connection names no host")
)

// alertAccessDenied is a fatal TLS alert (RFC 8446, section 6.2).
var alertAccessDenied = []byte{21, 3, 3, 0, 2, 2, 49}

func (s *capture) serve(ln *crowd) error { return s.proxy.acceptEach(ln, s.listener, s.carry) }

// acceptEach has connections carried until the listener is closed. An error of accepting that passes, such as a lack of descriptors, is
// waited out.
func (p *Proxy) acceptEach(ln *crowd, listener string, carry func(*net.TCPConn)) error {
	for pause := time.Millisecond; ; {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			pause = time.Millisecond
			go func() {
				defer ln.note(nil, http.StateClosed)
				carry(conn.(*net.TCPConn))
			}()
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			p.log.Error("accepting failed", "listener", listener, "error", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
		}
	}
}

// carry takes one connection through the gates, up to where it is a tunnel.
func (s *capture) carry(conn *net.TCPConn) {
	c := s.proxy.begin(s.listener, "tunnel")
	defer c.finishUnlessHanded()
	defer func() { // no server guards this goroutine
		if recover() != nil {
			c.rec.ErrorClass = "panic"
			reset(conn)
		}
	}()
	to, err := s.original(conn)
	if err != nil || to == s.own || to.Port() == 0 {
		c.refuse(deny(BadTarget, "", errNotCaptured))
		_ = conn.Close()
		return
	}
	first, host, err := s.peek(conn)
	switch {
	case err != nil:
		c.rec.Port = to.Port()
		c.refuse(deny(BadTarget, "", err))
		c.rec.ErrorClass = "client_hello"
		turn(conn, alertUnrecognizedName)
	case first[0] == recordHandshake:
		c.blunt = true
		c.open(&ask{tunnel: true, captured: true, authority: net.JoinHostPort(host, strconv.Itoa(int(to.Port())))})(conn, first)
	default:
		c.target.Port = to.Port()
		c.rec.Decision, c.rec.Port, c.rec.Tool = "allow", to.Port(), c.listener.Tool // each request has a decision of its own
		c.interceptConn(conn, first, &ask{captured: true})
	}
}

// peek reads until the client's first bytes tell what it speaks, and of TLS whose name it asks for.
func (s *capture) peek(conn *net.TCPConn) (first []byte, host string, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(s.timeout))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		first = append(first, buf[:n]...)
		if len(first) > 0 && first[0] != recordHandshake {
			return first, "", nil
		}
		h, herr := parseHello(first)
		switch {
		case herr == nil && h.serverName == "":
			return nil, "", errNoHost
		case herr == nil:
			return first, h.serverName, nil
		case !errors.Is(herr, errHelloShort):
			return nil, "", herr
		case err != nil:
			return nil, "", errHelloSlow
		}
	}
}

// turn ends a connection that is refused, with an alert that says so to a client of TLS.
func turn(conn net.Conn, alert []byte) {
	_ = conn.SetDeadline(time.Now().Add(refuseTimeout))
	_, _ = conn.Write(alert)
	lingeringClose(conn)
}
