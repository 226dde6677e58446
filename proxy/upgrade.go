package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// upgraded relays a WebSocket after the upstream's 101, frames as they come, both ways. The client may have sent frames before
// it had the 101; they are in its buffer and go first.
func (c *call) upgraded(w http.ResponseWriter, res *http.Response, asked bool) {
	back, ok := res.Body.(io.ReadWriteCloser)
	if !asked || !ok {
		c.rec.ErrorClass = "upstream_protocol"
		c.refuseRequest(w, deny(UpstreamProtocol, "The upstream switched protocols unasked.", nil))
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.rec.ErrorClass = "client_gone"
		return
	}
	s := &socket{client: client, upstream: back}
	if !c.register(s) {
		s.end(errDrained)
		c.refuse(deny(Overloaded, "The sidecar's limit of tunnels is reached.", nil))
		return
	}
	defer c.unregister(s)
	ctx := c.ctx
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	defer stop()
	c.rec.Status = http.StatusSwitchingProtocols
	s.run(c, buffered.Reader, res)
	if cause := s.why(); cause != nil {
		c.cutBy(cause)
	}
}

// register makes the socket an open tunnel of its own, or takes over the intercepted tunnel that it came through, which
// net/http forgets when the connection is hijacked.
func (c *call) register(s *socket) bool {
	if c.within != nil {
		s.open = &c.within.open
		return true
	}
	s.open = &open{tool: c.tool.Name, cut: s.end}
	return c.proxy.tunnels.add(s.open)
}

func (c *call) unregister(s *socket) {
	if c.within != nil {
		c.within.close(s.client)
		return
	}
	c.proxy.tunnels.remove(s.open)
}

// socket is a WebSocket being relayed.
type socket struct {
	open     *open
	client   net.Conn
	upstream io.ReadWriteCloser

	mu    sync.Mutex
	cause error
}

// run writes the 101 and copies until either side ends. WebSockets have no half-close: the closing handshake has been relayed
// by then, and what is left of the other direction has nobody to read it.
func (s *socket) run(c *call, early io.Reader, res *http.Response) {
	head := &http.Response{StatusCode: res.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: incoming(res.Header)}
	head.Header["Connection"], head.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	bw := bufio.NewWriter(s.client)
	if head.Write(bw) != nil || bw.Flush() != nil {
		s.end(net.ErrClosed)
		return
	}
	ended := make(chan struct{}, 2)
	pump := func(dst io.Writer, src io.Reader, n *int64) {
		*n += s.copy(dst, src)
		ended <- struct{}{}
	}
	go pump(s.upstream, early, &c.rec.BytesOut)
	go pump(s.client, s.upstream, &c.rec.BytesIn)
	<-ended
	s.settle()
	<-ended
}

// settle gives the direction that still runs a moment, then ends both.
func (s *socket) settle() {
	_ = s.client.SetDeadline(time.Now().Add(time.Second))
	_ = s.upstream.Close()
}

func (s *socket) copy(dst io.Writer, src io.Reader) (n int64) {
	buf := make([]byte, 8<<10)
	for {
		k, err := src.Read(buf)
		if k > 0 {
			s.open.touch()
			if _, werr := dst.Write(buf[:k]); werr != nil {
				return n
			}
			n += int64(k)
		}
		if err != nil {
			return n
		}
	}
}

func (s *socket) end(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.mu.Unlock()
	_ = s.client.Close()
	_ = s.upstream.Close()
}

func (s *socket) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}
