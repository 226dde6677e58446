package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

var (
	errWorkloadToken = errors.New("the workload's token has a form that no header field can carry")
	errNotConnect    = errors.New("a gateway takes CONNECT with a Host that says the same, and nothing unusual")
	errHeadSize      = errors.New("the head is too long")
)

// gateway serves a listener to which sidecars come. Only tunnels exist there, each on a connection of its own under TLS, and only sidecars
// come, so it reads one form of one request and nothing else. It verifies the client's certificate itself, at each tunnel and after a
// resumption too: what is refused has a record and a code so.
type gateway struct {
	proxy    *Proxy
	listener string
	timeout  time.Duration // of handshake and head
	max      int           // of a head, in bytes
	conf     *tls.Config
}

func newGateway(p *Proxy, listener string, limits config.Limits) *gateway {
	g := &gateway{proxy: p, listener: listener, timeout: limits.HeaderTimeout, max: limits.MaxHeaderBytes}
	g.conf = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, DynamicRecordSizingDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair := p.gates.Load().pairs[listener]
			if pair == nil { // a reload has made another listener of it, which waits for a restart
				return nil, errors.New("no certificate")
			}
			return pair.get()
		},
	}
	return g
}

func (g *gateway) serve(ln *crowd) error { return g.proxy.acceptEach(ln, g.listener, g.carry) }

// carry takes one connection through the gates, up to where it is a tunnel. A connection that does not get through the handshake is no
// call.
func (g *gateway) carry(tcp *net.TCPConn) {
	_ = tcp.SetDeadline(time.Now().Add(g.timeout))
	conn := tls.Server(tcp, g.conf)
	if err := conn.Handshake(); err != nil {
		g.proxy.metrics.handshakes.Inc()
		g.proxy.log.Debug("a handshake with a gateway failed", "listener", g.listener, "error", err)
		_ = tcp.Close()
		return
	}
	c := g.proxy.begin(g.listener, "tunnel")
	defer c.finishUnlessHanded()
	defer func() { // no server guards this goroutine
		if recover() != nil {
			reset(conn)
		}
	}()
	defer c.contain()
	a, early, err := g.read(conn)
	switch {
	case errors.Is(err, errHeadSize):
		c.refuseConn(conn, deny(HeaderTooLarge, "The head is longer than the gateway reads.", err))
		return
	case err != nil:
		c.refuseConn(conn, deny(BadRequest, "A gateway takes CONNECT, as sidecars write it, and nothing else.", err))
		return
	}
	_ = tcp.SetDeadline(time.Time{})
	a.peer = conn.ConnectionState().PeerCertificates
	if egress.IsDecisionID(a.decision) {
		c.rec.SidecarDecisionID = a.decision
	}
	c.open(a)(conn, early)
}

// read reads the head of the one request that a connection has.
func (g *gateway) read(conn io.Reader) (a *ask, early []byte, err error) {
	buf := make([]byte, 0, 2<<10)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		from := max(0, len(buf)-3)
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[from:], []byte("\r\n\r\n")); i >= 0 {
			end := from + i + 4
			if a := gatewayAsk(buf[:end]); a != nil {
				return a, bytes.Clone(buf[end:]), nil
			}
			return nil, nil, errNotConnect
		}
		switch {
		case err != nil:
			return nil, nil, err
		case len(buf) >= g.max:
			return nil, nil, errHeadSize
		case len(buf) == cap(buf):
			buf = append(make([]byte, 0, min(2*cap(buf), g.max)), buf...)
		}
	}
}

// gatewayAsk reads a CONNECT as sidecars write it, or returns nil.
func gatewayAsk(head []byte) *ask {
	a, values, n := connectHead(head, isSidecarAuthority)
	if a == nil || n != len(head) || len(a.toolgateAuthorization) > 0 {
		return nil
	}
	a.gateway = true
	a.workload, a.decision = string(values[plainToolgateWorkload]), string(values[plainToolgateDecision])
	return a
}

// isSidecarAuthority is isPlainAuthority, with IPv6 addresses.
func isSidecarAuthority(b []byte) bool {
	if len(b) == 0 || b[0] != '[' {
		return isPlainAuthority(b)
	}
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', c == ':', c == '.', c == '[', c == ']':
		default:
			return false
		}
	}
	return true
}
