package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/fixture"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/tracing"
)

// Proxy carries the calls of every listener. Create it with New.
type Proxy struct {
	kill    *killswitch.Switch
	killLog func() (revision uint64, refused string, ok bool)
	audit   *audit.Log
	log     *slog.Logger
	metrics *Metrics
	leaves  *leaves
	gates   atomic.Pointer[Gates]
	tunnels *registry
	running requests
	inner   *innerServer
	fence   *Fence            // nil: none is expected
	tracer  *tracing.Tracer   // nil: nothing is traced
	capture *fixture.Recorder // nil: no call is captured
	replays identity.Replays  // outlives a reload
	runs    runs              // so does it
	held    held
	logged  logged

	mu        sync.Mutex
	servers   []*http.Server
	fronts    []*front
	listeners []net.Listener // those that no server closes
	draining  atomic.Bool
}

// Options are what a Proxy is made of; all but Fence, KillLog, Tracer and Capture are needed.
type Options struct {
	Gates   *Gates
	Kill    *killswitch.Switch
	KillLog func() (revision uint64, refused string, ok bool) // of the control plane's log; ok is false without one
	Audit   *audit.Log
	Log     *slog.Logger
	Metrics *Metrics
	CA      *CA
	Fence   *Fence            // nil: nobody expects one
	Tracer  *tracing.Tracer   // nil: nothing is traced. Its owner closes it, after Shutdown
	Capture *fixture.Recorder // nil: no call is captured. Its owner closes it, after Shutdown
}

// New returns a proxy that serves nothing yet.
func New(o Options) *Proxy {
	if o.KillLog == nil {
		o.KillLog = func() (uint64, string, bool) { return 0, "", false }
	}
	p := &Proxy{kill: o.Kill, killLog: o.KillLog, audit: o.Audit, log: o.Log, metrics: o.Metrics, leaves: newLeaves(o.CA), fence: o.Fence, tracer: o.Tracer, capture: o.Capture}
	limits := o.Gates.snapshot.Limits
	p.gates.Store(o.Gates)
	p.tunnels = newRegistry(limits)
	p.running.maxPerTenant = limits.MaxRequestsPerTenant
	p.logged.begin()
	p.inner = newInnerServer(p, limits)
	p.metrics.attach(p)
	o.Kill.OnRevoke(p.dropCredentials)
	return p
}

// Gates returns the gates in force.
func (p *Proxy) Gates() *Gates { return p.gates.Load() }

// Reload puts new gates in force for calls that begin from now on, and cuts the requests and tunnels that they would not
// have let through. Listeners are not touched.
func (p *Proxy) Reload(g *Gates) {
	g.broker.Succeed(p.gates.Load().broker)
	old := p.gates.Swap(g)
	p.running.review(g) // first, since a request that is cut with its tunnel would not know why
	p.tunnels.review(g)
	p.metrics.setTools(g.snapshot)
	old.retire()
}

// UseCA signs leaves with another CA from now on. Connections that are intercepted already go on.
func (p *Proxy) UseCA(ca *CA) { p.leaves.use(ca) }

// admit registers an open tunnel of c, or says why not. A tunnel that was decided by gates which a reload has just replaced may
// have come too late for their review, and is reviewed here.
func (p *Proxy) admit(o *open, c *call) *Denial {
	o.tenant = c.rec.Tenant
	if d := p.tunnels.add(o); d != nil {
		return d
	}
	if p.draining.Load() { // it would come too late to be cut
		p.tunnels.remove(o)
		return deny(NotReady, "The sidecar is stopping.", nil)
	}
	if g := p.gates.Load(); g != c.gates && o.stands != nil && !o.stands(g) {
		p.tunnels.remove(o)
		return (&policyChanged{code: DomainNotAllowed, revision: g.snapshot.Revision}).denial(c)
	}
	return nil
}

// dropCredentials forgets what was issued for the calls that a revocation covers.
func (p *Proxy) dropCredentials(r killswitch.Revocation) {
	g := p.gates.Load()
	n := g.drop(func(k broker.Key) bool { return g.covers(r.Selector, k) })
	p.log.Info("revoked", "revocation", r.ID, "reason", r.Reason, "by", r.By, "credentials_dropped", n)
}

// covers reports whether a cached credential belongs to a call that the selector covers, at any target of its binding.
func (g *Gates) covers(s killswitch.Selector, k broker.Key) bool {
	scope := killswitch.Scope{
		Tool: k.Tool, Version: k.Version, Tenant: k.Tenant, Subject: k.Subject, Agent: k.Agent, Task: k.Task, Run: k.Run,
	}
	if t := g.snapshot.Tools[k.Tool]; t != nil {
		scope.Risk, scope.CapabilityClasses = t.Risk, t.CapabilityClasses
	}
	if s.Covers(scope) {
		return true
	}
	for i := range g.snapshot.Bindings {
		if b := &g.snapshot.Bindings[i]; b.Name == k.Binding {
			for _, target := range b.Targets {
				if scope.Host, _, _ = strings.Cut(target, ":"); s.Covers(scope) {
					return true
				}
			}
		}
	}
	return false
}

// Serve carries the calls of the listener of that name until Shutdown. It returns nil then.
func (p *Proxy) Serve(ln net.Listener, listener string) error {
	g := p.gates.Load()
	limits := g.snapshot.Limits
	crowd := &crowd{Listener: ln, max: int64(limits.MaxConnections)}
	kind := g.listener(listener).Kind
	s := &http.Server{
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * past the gates

		Handler:           newEntry(p, listener),
		ReadHeaderTimeout: limits.HeaderTimeout,
		IdleTimeout:       limits.IdleTimeout,
		MaxHeaderBytes:    limits.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		ConnContext:       withGuard,
		ConnState: func(conn net.Conn, state http.ConnState) {
			crowd.note(conn, state)
			noteState(conn, state)
		},
	}
	front := newFront(p, listener, crowd, limits.HeaderTimeout, limits.MaxHeaderBytes)
	if !p.register(kind, s, front, ln) {
		return ln.Close()
	}
	switch kind {
	case config.DNS:
		return (&stub{proxy: p, listener: listener}).serve(ln)
	case config.Transparent:
		own := ln.Addr().(*net.TCPAddr).AddrPort()
		return (&capture{proxy: p, listener: listener, own: own, timeout: limits.HeaderTimeout, original: originalDestination}).serve(crowd)
	}
	if kind == config.Gateway {
		return newGateway(p, listener, limits).serve(crowd)
	}
	go front.run()
	refuse := func(conn net.Conn, status int) { p.refuseUnread(listener, nil, conn, status) }
	if err := s.Serve(&guardedListener{front, refuse}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// register notes what a shutdown must stop. It reports false when the shutdown has come already and would miss it.
func (p *Proxy) register(kind string, s *http.Server, f *front, ln net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.draining.Load():
		return false
	case kind == config.DNS || kind == config.Transparent || kind == config.Gateway:
		p.listeners = append(p.listeners, ln)
	default:
		p.servers, p.fronts = append(p.servers, s), append(p.fronts, f)
	}
	return true
}

// Shutdown fails /readyz, stops accepting and opens no more tunnels. It lets running calls end until ctx does, with what their
// protocols have for it (Connection: close, GOAWAY, close frame 1001), then cuts what is left. Every call is recorded.
func (p *Proxy) Shutdown(ctx context.Context) {
	p.draining.Store(true)
	p.mu.Lock()
	servers := append([]*http.Server{p.inner.server}, p.servers...)
	for _, ln := range p.listeners {
		_ = ln.Close()
	}
	fronts := p.fronts
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if s.Shutdown(ctx) != nil {
				_ = s.Close()
			}
		})
	}
	p.tunnels.leave()
	for _, f := range fronts { // before the tunnels, which their calls become
		f.wait(ctx)
	}
	p.tunnels.wait(ctx)
	p.tunnels.closeAll(errDrained)
	wg.Wait()
	last, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	p.tunnels.wait(last)
	p.tunnels.stop()
	g := p.gates.Load()
	g.retire()
	closing, over := context.WithTimeout(context.Background(), closeTime)
	defer over()
	g.broker.Close(closing)
}

// closeTime is how long issuers may take, when the sidecar stops, to end what they keep open for it.
const closeTime = 3 * time.Second

// contain keeps a panic of one call from ending the process and from printing what it held. An abort goes on: net/http
// cuts the connection, so that a response that broke off does not look complete.
func (c *call) contain() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.rec.ErrorClass = "panic"
		c.proxy.log.Error("a call panicked", "decision_id", c.rec.ID, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// shutdownGrace is how long connections that were cut may take to wind up.
const shutdownGrace = 5 * time.Second
