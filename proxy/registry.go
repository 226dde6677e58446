package proxy

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
)

var (
	errDrained = errors.New("drained")
	errIdle    = errors.New("idle")
)

// open is an entry of the registry: a connection that lasts, and how to cut it.
type open struct {
	tool   string
	tenant string // of the caller; "": of none
	cut    func(cause error)
	leave  func()            // tells both sides that the sidecar stops; nil: nobody can be told
	stands func(*Gates) bool // whether it may stay under other gates; nil: it may
	rest   func()            // called when it has idled for restAfter; nil: nothing to give up
	last   atomic.Int64      // of the last byte, as clock tells it
}

func (o *open) touch() { o.moved(clock()) }

// moved is touch for who knows what clock tells.
func (o *open) moved(now int64) { o.last.Store(now) }

var began = time.Now()

// clock is the monotonic time in nanoseconds: a wall clock that is set must not make every tunnel look idle.
func clock() int64 { return int64(time.Since(began)) }

// registry knows every open tunnel: relays, intercepted connections, WebSockets. It bounds their number, ends the idle
// ones, and lets a shutdown wait for them and cut them.
type registry struct {
	limits config.Limits
	ended  chan struct{}

	mu      sync.Mutex
	opens   map[*open]struct{}
	tools   map[string]int // how many by tool
	tenants map[string]int // and by tenant
	empty   chan struct{}  // closed and replaced whenever opens becomes empty
}

func newRegistry(limits config.Limits) *registry {
	r := &registry{
		limits: limits, opens: map[*open]struct{}{}, tools: map[string]int{}, tenants: map[string]int{},
		empty: make(chan struct{}), ended: make(chan struct{}),
	}
	lot.prepare()
	go r.sweep()
	return r
}

// add registers o, or says at which limit it cannot.
func (r *registry) add(o *open) *Denial {
	o.touch()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.tenant != "" && r.tenants[o.tenant] >= r.limits.MaxTunnelsPerTenant:
		return deny(TooManyCalls, "The tenant's limit of tunnels is reached.", nil)
	case len(r.opens) >= r.limits.MaxTunnels || r.tools[o.tool] >= r.limits.MaxTunnelsPerTool:
		return deny(Overloaded, "The sidecar's limit of tunnels is reached.", nil)
	}
	r.opens[o] = struct{}{}
	r.tools[o.tool]++
	r.tenants[o.tenant]++
	return nil
}

func (r *registry) remove(o *open) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.opens[o]; !there {
		return
	}
	delete(r.opens, o)
	less(r.tools, o.tool)
	less(r.tenants, o.tenant)
	if len(r.opens) == 0 {
		close(r.empty)
		r.empty = make(chan struct{})
	}
}

// less counts one less, and forgets what counts nothing.
func less(counts map[string]int, name string) {
	if counts[name]--; counts[name] == 0 {
		delete(counts, name)
	}
}

// wait returns when nothing is open or ctx ends.
func (r *registry) wait(ctx context.Context) {
	r.mu.Lock()
	empty, n := r.empty, len(r.opens)
	r.mu.Unlock()
	if n == 0 {
		return
	}
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// leave tells those that can be told that the sidecar stops.
func (r *registry) leave() {
	for _, o := range r.list(func(o *open) bool { return o.leave != nil }) {
		o.leave()
	}
}

// closeAll cuts everything that is open.
func (r *registry) closeAll(cause error) {
	for _, o := range r.list(func(*open) bool { return true }) {
		o.cut(cause)
	}
}

func (r *registry) list(which func(*open) bool) []*open {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l []*open
	for o := range r.opens {
		if which(o) {
			l = append(l, o)
		}
	}
	return l
}

// byTool counts what is open.
func (r *registry) byTool() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.tools)
}

// review cuts what may not stay under new gates.
func (r *registry) review(g *Gates) {
	for _, o := range r.list(func(o *open) bool { return o.stands != nil }) {
		if !o.stands(g) {
			o.cut(&policyChanged{code: DomainNotAllowed, revision: g.snapshot.Revision})
		}
	}
}

// restAfter is how long an open tunnel idles before it is told to rest.
const restAfter = 500 * time.Millisecond

// sweep ends what idles, and tells what has paused to rest. One goroutine for all is cheaper than a deadline per read,
// and works where reads are splices.
func (r *registry) sweep() {
	tick := time.NewTicker(min(max(r.limits.IdleTimeout/4, 10*time.Millisecond), restAfter/2))
	defer tick.Stop()
	for {
		select {
		case <-r.ended:
			return
		case <-tick.C:
		}
		now := clock()
		over, paused := now-int64(r.limits.IdleTimeout), now-int64(restAfter)
		for _, o := range r.list(func(o *open) bool { return o.last.Load() < paused || o.last.Load() < over }) {
			switch {
			case o.last.Load() < over:
				o.cut(errIdle)
			case o.rest != nil:
				o.rest()
			}
		}
		lot.tidy(time.Now())
	}
}

func (r *registry) stop() { close(r.ended) }
