//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

// lab is what all measurements of one run share.
type lab struct {
	opt      *options
	self     string // this program, executable by the proxies' uid
	dir      string // scratch, readable by the proxies' uid
	load     *child
	helpers  []*child // stopped by close
	upstream upstreamHello
	caFile   string      // the upstream's CA
	issuer   issuerHello // only when a peer needs it
	sidecar  string      // the built binary; only when a peer needs it
	squids   int         // started so far
}

// openLab starts the processes that every measurement uses. close ends them and removes the scratch folder.
func openLab(ctx context.Context, opt *options) (l *lab, err error) {
	l = &lab{opt: opt}
	if l.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return nil, err
	}
	if err := l.copySelf(); err != nil {
		return nil, err
	}
	if _, err := l.helper(ctx, "upstream", &l.upstream); err != nil {
		return nil, err
	}
	l.caFile = filepath.Join(l.dir, "upstream.pem")
	if err := os.WriteFile(l.caFile, []byte(l.upstream.CA), 0o644); err != nil {
		return nil, err
	}
	if l.load, err = l.helper(ctx, "load", &struct{}{}); err != nil {
		return nil, err
	}
	return l, l.prepareToolgate(ctx)
}

func (l *lab) close() {
	for _, c := range l.helpers {
		c.stop()
	}
	_ = os.RemoveAll(l.dir)
}

// helper starts a process that lives as long as the lab. It keeps this uid: only the proxies are under test.
func (l *lab) helper(ctx context.Context, role string, hello any) (*child, error) {
	c, err := spawnSelf(ctx, -1, l.self, role, hello)
	if err == nil {
		l.helpers = append(l.helpers, c)
	}
	return c, err
}

// copySelf makes a copy of this program that another uid can reach: "go run" builds into a private folder.
func (l *lab) copySelf() error {
	self, err := os.Executable()
	if err != nil || os.Getuid() != 0 {
		l.self = self
		return err
	}
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close()
	l.self = filepath.Join(l.dir, "bench")
	out, err := os.OpenFile(l.self, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// ask sends one command to the load generator and waits for its answer.
func (l *lab) ask(c command) (*reply, error) {
	if err := json.NewEncoder(l.load.stdin).Encode(c); err != nil {
		return nil, err
	}
	var r reply
	if err := l.load.read(&r); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return &r, nil
}

// The ways to the upstream.
const (
	plain  = ""
	secure = alpnH1
	h2     = alpnH2
)

// route returns the way through p. A peer that knows no CONNECT leads from its own ports to the upstream's.
func (l *lab) route(p *proxy, way string) route {
	at := l.upstream
	if p.fixed != nil {
		at = *p.fixed
	}
	target := map[string]string{plain: at.Plain, secure: at.TLS, h2: at.H2}[way]
	return route{Proxy: p.addr, Auth: p.auth, Target: target, ALPN: way}
}

// open opens n tunnels through p and returns their session.
func (l *lab) open(p *proxy, way string, n int) (int, error) { return l.openRoute(l.route(p, way), n) }

func (l *lab) openRoute(way route, n int) (int, error) {
	r, err := l.ask(command{Op: "open", Conns: n, Route: way})
	if err != nil {
		return 0, err
	}
	return r.Session, nil
}

func (l *lab) shut(session int) error {
	_, err := l.ask(command{Op: "close", Session: session})
	return err
}

// reading is the state of a proxy's process at one moment.
type reading struct {
	cpu   time.Duration
	stats *goStats
}

// work runs c against p and returns the answer with what the proxy spent on it. The cost of reading the metrics page is
// measured and taken off.
func (l *lab) work(ctx context.Context, p *proxy, c command) (*reply, *spent, error) {
	if p.child == nil {
		r, err := l.ask(c)
		return r, nil, err
	}
	blank, err := scrape(ctx, p.metrics)
	if err != nil {
		return nil, nil, err
	}
	before, err := l.reading(ctx, p, nil)
	if err != nil {
		return nil, nil, err
	}
	r, err := l.ask(c)
	if err != nil {
		return nil, nil, err
	}
	after, err := l.reading(ctx, p, before)
	if err != nil {
		return nil, nil, err
	}
	s := &spent{cpu: after.cpu - before.cpu, allocs: math.NaN(), bytes: math.NaN()}
	if blank != nil {
		s.allocs = after.stats.mallocs - 2*before.stats.mallocs + blank.mallocs
		s.bytes = after.stats.allocBytes - 2*before.stats.allocBytes + blank.allocBytes
	}
	return r, s, nil
}

// reading looks at a proxy when it has settled: what follows the last answer, such as the end of closed tunnels, belongs to the work as
// well. The metrics page is read outside the span in which CPU time is taken: before it at the start, where there is none before,
// and after it at the end.
func (l *lab) reading(ctx context.Context, p *proxy, before *reading) (r *reading, err error) {
	r = &reading{}
	if before == nil {
		if r.stats, err = scrape(ctx, p.metrics); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, l.opt.load.settle); err != nil {
		return nil, err
	}
	if r.cpu, err = cpuTime(p.child.pid()); err != nil {
		return nil, err
	}
	if before != nil {
		r.stats, err = scrape(ctx, p.metrics)
	}
	return r, err
}

// spent is what a proxy used for a piece of work. It is nil where there is no proxy. Allocations of a proxy that does not tell are NaN.
type spent struct {
	cpu           time.Duration
	allocs, bytes float64
}
