package proxy

import (
	"context"
	"crypto/tls"
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
	held    int                  // in idle
	tidier  *time.Timer          // set while anything is idle
	retired bool
}

func newH1Pool(tool string, d dialer, conf *tls.Config, limits config.Limits) *h1Pool {
	conf = conf.Clone()
	conf.NextProtos = []string{"http/1.1"}
	return &h1Pool{
		tool: tool, dialer: d, tls: conf, timeout: limits.DialTimeout, header: limits.MaxHeaderBytes, idle: map[origin][]*h1Conn{},
	}
}

// get returns a connection that idles and is still good, else a new one.
func (p *h1Pool) get(ctx context.Context, o origin, at *egress.Attempts) (*h1Conn, error) {
	for c := p.take(o); c != nil; c = p.take(o) {
		if c.quiet() {
			return c, nil
		}
		c.abort()
	}
	return p.open(ctx, o, at)
}

func (p *h1Pool) take(o origin) *h1Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.idle[o]
	if len(l) == 0 {
		return nil
	}
	c := l[len(l)-1]
	l[len(l)-1] = nil
	p.idle[o] = l[:len(l)-1] // kept when empty: tidy drops it
	p.held--
	return c
}

// open connects. The socket's address is judged by the dialer, the certificate by TLS; neither can be skipped.
func (p *h1Pool) open(ctx context.Context, o origin, at *egress.Attempts) (*h1Conn, error) {
	tcp, err := p.dialer.Dial(ctx, p.tool, o.host, o.port, at)
	if err != nil {
		return nil, err
	}
	if !o.tls {
		return newH1Conn(o, tcp, tcp, p.header), nil
	}
	conf := p.tls.Clone()
	conf.ServerName = o.host
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	t := tls.Client(tcp, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return newH1Conn(o, tcp, t, p.header), nil
}

// put keeps a connection for another request, or closes it.
func (p *h1Pool) put(c *h1Conn) {
	if !p.keep(c) {
		_ = c.conn.Close()
	}
}

func (p *h1Pool) keep(c *h1Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
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
