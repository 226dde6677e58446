package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/killswitch"
)

// socketGrace is how long a WebSocket's second direction may go on when the first has ended.
const socketGrace = time.Second

var errUnasked = errors.New("the upstream switched to a protocol that was not asked for")

// upgraded relays a WebSocket after the upstream's 101, frames as they come, both ways. The client may have sent frames before
// it had the 101; they are in its buffer and go first.
func (c *call) upgraded(to *client, res *http.Response, asked bool, cred *broker.Credential) {
	back, ok := res.Body.(io.ReadWriteCloser)
	if !asked || !ok || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		c.refuseRequest(to, c.failure(errUnasked))
		return
	}
	conn, buffered, err := to.rc.Hijack()
	if err != nil {
		c.rec.ErrorClass = "client_gone"
		return
	}
	conn = unguarded(conn)
	s := &socket{client: conn, upstream: back}
	s.up.dst, s.up.masked, s.down.dst = back, true, conn
	s.tool, s.cut, s.stands = c.tool.Name, s.end, func(g *Gates) bool { return c.changed(g) == nil }
	if c.within != nil { // it takes the tunnel's place, which net/http forgets with the connection
		c.proxy.tunnels.remove(&c.within.open)
		defer c.within.close(conn)
	}
	s.leave = s.goAway
	if d := c.proxy.admit(&s.open, c); d != nil {
		c.refuseConn(conn, d)
		return
	}
	defer c.proxy.tunnels.remove(&s.open)
	ctx := c.ctx
	defer context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) { // net/http cancels at the client's end, which is copied
			s.end(cause)
		}
	})()
	c.rec.Status = http.StatusSwitchingProtocols
	s.run(c, buffered.Reader, res, cred)
	if cause := s.why(); cause != nil {
		c.cutBy(cause)
	} else if cause := c.cause(ctx); errors.As(cause, new(*killswitch.Tripped)) {
		c.cutBy(cause)
	}
}

// socket is a WebSocket being relayed.
type socket struct {
	open
	client   net.Conn
	upstream io.ReadWriteCloser
	up, down lane

	mu    sync.Mutex
	cause error
}

// run writes the 101 and copies until both sides have ended, or one has and the other does not follow. It closes both.
func (s *socket) run(c *call, early io.Reader, res *http.Response, cred *broker.Credential) {
	defer func() { _, _ = s.upstream.Close(), s.client.Close() }()
	head := &http.Response{StatusCode: res.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	incoming(head.Header, res.Header)
	head.Header["Connection"], head.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	bw := bufio.NewWriter(s.client)
	if head.Write(bw) != nil || bw.Flush() != nil {
		return
	}
	s.up.begin()
	s.down.begin()
	ended := make(chan struct{}, 2)
	go func() {
		s.copy(&s.up, early, &c.rec.BytesOut)
		closeWrite(s.up.dst)
		ended <- struct{}{}
	}()
	go func() {
		if cred == nil {
			s.copy(&s.down, s.upstream, &c.rec.BytesIn)
		} else {
			scrubbed := newScrubbedFrames(&s.down, cred)
			s.copy(scrubbed, s.upstream, &c.rec.BytesIn)
			scrubbed.end()
		}
		closeWrite(s.down.dst)
		ended <- struct{}{}
	}()
	<-ended
	late := time.AfterFunc(socketGrace, func() {
		_ = s.upstream.Close()
		reset(s.client)
	})
	<-ended
	late.Stop()
}

// closeWrite passes the end of one direction on.
func closeWrite(dst io.Writer) {
	if t, ok := dst.(*taggedConn); ok {
		dst = t.Conn
	}
	if w, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

func (s *socket) copy(dst io.Writer, src io.Reader, n *int64) {
	buf := make([]byte, 8<<10)
	for {
		k, err := src.Read(buf)
		if k > 0 {
			s.touch()
			if _, werr := dst.Write(buf[:k]); werr != nil {
				return
			}
			*n += int64(k)
		}
		if err != nil {
			return
		}
	}
}

// goAway tells both sides that the sidecar stops, and lets them end. A side that does not is cut.
func (s *socket) goAway() {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = errDrained
	}
	s.mu.Unlock()
	s.up.left.Store(true)
	s.down.left.Store(true)
	go s.up.leave()
	go s.down.leave()
	time.AfterFunc(socketGrace, func() { s.end(errDrained) })
}

// end cuts both sides.
func (s *socket) end(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.mu.Unlock()
	reset(s.client)
	_ = s.upstream.Close()
}

func (s *socket) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}
