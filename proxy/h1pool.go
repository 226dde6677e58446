package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

const (
	maxIdle        = 256 // connections of one tool
	maxIdlePerHost = 32
	idleTime       = 90 * time.Second
)

// origin is what a connection to an upstream was made for.
type origin struct {
	tls  bool
	host string
	port uint16
}

func originOf(c *call, out *http.Request) origin {
	return origin{tls: out.URL.Scheme == "https", host: c.target.Host, port: c.target.Port}
}

// h1Pool is one tool's connections to HTTP/1.1 upstreams. net/http's transport would do, but for two goroutines a
// connection, between which each request changes hands four times; here the call's own goroutine writes and reads.
type h1Pool struct {
	tool    string
	dialer  dialer
	tls     *tls.Config
	timeout time.Duration // of a handshake
	header  int           // bytes of a response's header at most

	mu      sync.Mutex
	idle    map[origin][]*h1Conn // the one used last is the last
	waiting map[origin][]*waiter // who came first is the first
	held    int                  // in idle
	tidier  *time.Timer          // set while anything is idle
	retired bool
}

func newH1Pool(tool string, d dialer, conf *tls.Config, limits config.Limits) *h1Pool {
	return &h1Pool{
		tool: tool, dialer: d, tls: conf, timeout: limits.DialTimeout, header: limits.MaxHeaderBytes, idle: map[origin][]*h1Conn{}, waiting: map[origin][]*waiter{},
	}
}

// get returns a connection that idles and is still good, else a new one or one that is given back before that is made,
// whichever comes first: a name server that is away must not fail calls to where connections are open.
func (p *h1Pool) get(ctx context.Context, o origin, at *egress.Attempts) (*h1Conn, error) {
	for {
		if ctx.Err() != nil { // nobody is called for who has left
			return nil, context.Cause(ctx)
		}
		c, w := p.take(o)
		if c == nil {
			var err error
			if c, err = p.wait(ctx, o, w, at); err != nil {
				return nil, err
			}
		}
		if !c.used || c.quiet() {
			return c, nil
		}
		c.abort()
	}
}

// waiter is a call that waits for a connection.
type waiter struct {
	conn   chan *h1Conn // holds one
	failed chan error   // holds one
}

// take returns the connection that was used last, or a place among those who wait for one.
func (p *h1Pool) take(o origin) (*h1Conn, *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.idle[o]
	if len(l) == 0 {
		w := &waiter{conn: make(chan *h1Conn, 1), failed: make(chan error, 1)}
		p.waiting[o] = append(p.waiting[o], w)
		return nil, w
	}
	c := l[len(l)-1]
	l[len(l)-1] = nil
	p.idle[o] = l[:len(l)-1] // kept when empty: tidy drops it
	p.held--
	return c, nil
}

// wait connects and waits for that, or for another call's connection. What is made in vain is kept for the next call.
func (p *h1Pool) wait(ctx context.Context, o origin, w *waiter, at *egress.Attempts) (*h1Conn, error) {
	dialing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		c, err := p.open(dialing, o, at)
		switch {
		case err != nil:
			w.failed <- err
		case p.leave(o, w):
			w.conn <- c
		default:
			p.put(c)
		}
	}()
	var err error
	select {
	case c := <-w.conn:
		return c, nil
	case err = <-w.failed:
	case <-ctx.Done():
		cancel()
		err = context.Cause(ctx)
	}
	if !p.leave(o, w) {
		p.put(<-w.conn) // given meanwhile
	}
	return nil, err
}

// leave gives a place up and reports whether it was still held; if not, a connection has been given to it or is about to be.
func (p *h1Pool) leave(o origin, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.waiting[o]
	i := slices.Index(l, w)
	if i < 0 {
		return false
	}
	if p.waiting[o] = slices.Delete(l, i, i+1); len(l) == 1 {
		delete(p.waiting, o)
	}
	return true
}

// open connects for requests of HTTP/1.1.
func (p *h1Pool) open(ctx context.Context, o origin, at *egress.Attempts) (*h1Conn, error) {
	tcp, conn, err := p.connect(ctx, o, at, "http/1.1")
	if err != nil {
		return nil, err
	}
	return newH1Conn(o, tcp, conn, p.header), nil
}

// connect returns a socket and what is spoken over it: TLS that offers protocols, or nothing more. The socket's address is judged
// by the dialer, the certificate by TLS; neither can be skipped.
func (p *h1Pool) connect(ctx context.Context, o origin, at *egress.Attempts, protocols ...string) (*net.TCPConn, net.Conn, error) {
	way, err := p.dialer.Dial(ctx, p.tool, o.host, o.port, at)
	if err != nil {
		return nil, nil, err
	}
	tcp := rawConn(way).(*net.TCPConn) // whatever a dialer puts around it
	if !o.tls {
		return tcp, way, nil
	}
	conf := p.tls.Clone()
	conf.ServerName, conf.NextProtos = o.host, protocols
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	t := tls.Client(way, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, nil, err
	}
	return tcp, t, nil
}

// put gives a connection to who waits for one, keeps it for another request, or closes it.
func (p *h1Pool) put(c *h1Conn) {
	if !p.keep(c) {
		_ = c.conn.Close()
	}
}

func (p *h1Pool) keep(c *h1Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting := p.waiting[c.origin]; len(waiting) > 0 {
		c.used = true
		waiting[0].conn <- c
		if p.waiting[c.origin] = slices.Delete(waiting, 0, 1); len(waiting) == 1 {
			delete(p.waiting, c.origin)
		}
		return true
	}
	l := p.idle[c.origin]
	if p.retired || p.held >= maxIdle || len(l) >= maxIdlePerHost {
		return false
	}
	c.used, c.since = true, clock()
	p.idle[c.origin] = append(l, c)
	p.held++
	if p.tidier == nil {
		p.tidier = time.AfterFunc(idleTime, p.tidy)
	}
	return true
}

// tidy closes what has idled for long.
func (p *h1Pool) tidy() {
	over := clock() - int64(idleTime)
	var old []*h1Conn
	p.mu.Lock()
	for o, l := range p.idle {
		n := 0
		for n < len(l) && l[n].since <= over {
			n++
		}
		old = append(old, l[:n]...)
		if p.idle[o] = append([]*h1Conn(nil), l[n:]...); n == len(l) {
			delete(p.idle, o)
		}
	}
	p.held -= len(old)
	p.tidier = nil
	if p.held > 0 {
		p.tidier = time.AfterFunc(idleTime/3, p.tidy)
	}
	p.mu.Unlock()
	for _, c := range old {
		_ = c.conn.Close()
	}
}

// retire closes what idles, and what running calls will give back.
func (p *h1Pool) retire() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.held, p.retired = map[origin][]*h1Conn{}, 0, true
	if p.tidier != nil {
		p.tidier.Stop()
	}
	p.mu.Unlock()
	for _, l := range idle {
		for _, c := range l {
			_ = c.conn.Close()
		}
	}
}
