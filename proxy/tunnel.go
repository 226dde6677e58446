package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/redact"
)

const (
	establishedLine = "HTTP/1.1 200 Connection established\r\n"
	established     = establishedLine + "\r\n"
)

var greetingOfConnect = []byte(established)

// open takes a tunnel, asked for by CONNECT or captured, through the gates and returns what is to be done with the client's
// connection: refuse, intercept or relay. A relay's upstream is dialled first, so that a failure is a status and not a broken
// tunnel.
func (c *call) open(a *ask) func(conn net.Conn, early []byte) {
	// The request's own context ends with the handler; a tunnel outlives it.
	d := c.decide(context.Background(), a)
	if d != nil && c.answerInside(a, d) {
		c.refuse(d)
		return func(conn net.Conn, early []byte) { c.interceptConn(conn, early, a) }
	}
	if d == nil && c.intercept {
		c.rec.Decision = "allow"
		return func(conn net.Conn, early []byte) { c.interceptConn(conn, early, a) }
	}
	var upstream duplex
	if d == nil {
		d = c.intendTunnel()
	}
	if d == nil {
		upstream, d = c.dial()
	}
	if d != nil {
		return func(conn net.Conn, _ []byte) { c.refuseConn(conn, d) }
	}
	c.rec.Decision = "allow"
	return func(conn net.Conn, early []byte) { c.relay(conn, upstream, early, c.greeting(a)) }
}

// greeting is what the client of a tunnel that is relayed is told.
func (c *call) greeting(a *ask) []byte {
	switch {
	case a.captured:
		return nil
	case a.gateway:
		return []byte(establishedLine + decisionHeader + ": " + c.rec.ID + "\r\n\r\n")
	}
	return greetingOfConnect
}

// dial is gate 7 for a tunnel.
func (c *call) dial() (duplex, *Denial) {
	start := time.Now()
	c.span.Upstream(start)
	conn, err := c.dialer().Dial(c.ctx, c.tool.Name, c.target.Host, c.target.Port, &c.attempts)
	c.rec.UpstreamTime = time.Since(start)
	if err != nil {
		return nil, c.failure(err)
	}
	c.passed(conn)
	return conn, nil
}

// refuseConn answers a CONNECT that is refused. The reason phrase carries the code, since most clients throw the body away.
func (c *call) refuseConn(conn net.Conn, d *Denial) {
	c.refuse(d)
	if c.blunt {
		c.finish()
		turn(conn, alertAccessDenied)
		return
	}
	status, header, body := d.answer(c)
	c.rec.Status = status
	header.Set("Connection", "close")
	if c.isGateway() {
		header.Set(decisionHeader, c.rec.ID)
	}
	res := &http.Response{
		Status: d.reason(), StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: header, ContentLength: int64(len(body)), Close: true,
		Body: io.NopCloser(bytes.NewReader(body)),
	}
	_ = conn.SetDeadline(time.Now().Add(refuseTimeout))
	_ = res.Write(conn)
	c.finish() // before the wait for the client to go
	lingeringClose(conn)
}

// refuseTimeout bounds how long a refused client may take to read its answer.
const refuseTimeout = 2 * time.Second

// lingeringClose closes conn so that the answer arrives though the client has sent more: closing with unread bytes
// makes the kernel reset the connection and throw the answer away.
func lingeringClose(conn net.Conn) {
	if t, ok := conn.(interface{ CloseWrite() error }); ok && t.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(refuseTimeout / 4))
		_, _ = io.CopyN(io.Discard, conn, 64<<10)
	}
	_ = conn.Close()
}

// relay is a tunnel whose bytes are passed on blind. It holds two descriptors, two goroutines while it is in use, and none
// once it has idled for a moment.
type relay struct {
	open
	call             *call
	client, upstream duplex
	up, down         direction   // to the upstream, to the client
	sni              sniGuard    // of up
	stop             func() bool // stops the guard
	running          atomic.Int32
	greeted          atomic.Bool           // the client has its 200; a cut before would leave it without any answer
	cause            atomic.Pointer[error] // why it was cut; the first one counts
}

// relay begins to pass bytes on, after a greeting to the client of a CONNECT.
func (c *call) relay(conn net.Conn, upstream duplex, early, greeting []byte) {
	client, ok := conn.(duplex)
	if !ok { // a listener that is no TCP listener is a mistake of ours
		_ = upstream.Close()
		_ = conn.Close()
		c.rec.ErrorClass = "listener"
		return
	}
	r := &relay{call: c, client: client, upstream: upstream}
	r.tool, r.cut, r.rest, r.stands = c.tool.Name, r.end, r.pause, r.mayStay
	if d := c.proxy.admit(&r.open, c); d != nil {
		_ = upstream.Close()
		c.refuseConn(conn, d)
		return
	}
	c.rec.Status = http.StatusOK
	_, err := client.Write(greeting)
	r.greeted.Store(true)
	if cause := r.cause.Load(); cause != nil { // cut meanwhile, which was left to us
		r.end(*cause)
	} else if err != nil {
		r.end(err)
	}
	c.token = redact.Secret{} // not needed any more; a tunnel may idle for days
	c.handed = true           // net/http's buffers are freed when the handler returns; the call is finished by the last direction
	r.running.Store(2)
	ctx := c.ctx
	r.stop = context.AfterFunc(ctx, func() { r.end(context.Cause(ctx)) })
	s := c.gates.snapshot
	r.sni = newSNIGuard(c.target.Host, s.Egress.AllowECH, s.Limits.HeaderTimeout)
	r.start(early)
}

// ended is called once by each direction. An end of stream, which is no error, is passed on and leaves the other direction
// open; an error ends both.
func (r *relay) ended(dst duplex, err error) {
	if err == nil {
		err = dst.CloseWrite()
		if isClosed(err) { // the peer has gone already, after we read its end of stream
			err = nil
		}
	}
	if err != nil {
		r.end(err)
	}
	if r.running.Add(-1) == 0 {
		r.finish()
	}
}

// pause lets the directions give up their goroutines until there is something to do.
func (r *relay) pause() {
	r.up.pause()
	r.down.pause()
}

// end cuts both sides with a reset, so that neither takes a broken stream for a complete one.
func (r *relay) end(cause error) {
	if cause == nil {
		cause = net.ErrClosed
	}
	first := r.cause.CompareAndSwap(nil, &cause)
	if !r.greeted.Load() {
		return
	}
	if first && misnamed(cause) {
		_, _ = r.client.Write(alertUnrecognizedName) // the reason arrives only if no reset follows
		_ = rawConn(r.client).Close()
	} else {
		reset(r.client)
	}
	reset(r.upstream)
	r.up.wake()
	r.down.wake()
}

// mayStay reports whether other gates would relay this tunnel too, and to this address.
func (r *relay) mayStay(g *Gates) bool {
	c := r.call
	if !c.stands(g) || !c.isGateway() && g.mustIntercept(g.snapshot.Tools[c.tool.Name], c.target) {
		return false
	}
	return c.wayStands(g, r.upstream.RemoteAddr())
}

// alertUnrecognizedName is a fatal TLS alert (RFC 8446, section 6; RFC 6066, section 3).
var alertUnrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

func (r *relay) finish() {
	r.stop()
	_ = r.client.Close()
	_ = r.upstream.Close()
	r.call.proxy.tunnels.remove(&r.open)
	if cause := r.cause.Load(); cause != nil {
		r.call.cutBy(*cause)
	}
	r.call.finish()
}

// cutBy notes why a call that was running ended early.
func (c *call) cutBy(cause error) {
	var tripped *killswitch.Tripped
	var changed *policyChanged
	switch {
	case errors.As(cause, &tripped):
		c.rec.Code, c.rec.ErrorClass, c.rec.RevocationID = string(Revoked), "cut", tripped.Revocation.ID
		c.proxy.metrics.cut(c.rec.Tool)
	case misnamed(cause):
		c.refuse(deny(TargetMismatch, "", cause))
		c.rec.ErrorClass = "client_hello"
	case errors.As(cause, &changed):
		c.rec.Code, c.rec.ErrorClass = string(changed.code), "policy_changed"
	case errors.Is(cause, errIdle):
		c.rec.ErrorClass = "idle"
	case errors.Is(cause, errDrained):
		c.rec.ErrorClass = "drained"
	default:
		c.rec.ErrorClass = "connection"
	}
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) || isNotConnected(err) }
