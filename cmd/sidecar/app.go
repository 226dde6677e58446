package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/audit/ship"
	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/fixture"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/redact"
	"github.com/toolgate/toolgate/tracing"
)

// app is a running sidecar: the parts, wired.
type app struct {
	path    string // of the config
	store   *config.Store
	proxy   *proxy.Proxy
	metrics *proxy.Metrics
	kill    *killswitch.Switch
	file    *killswitch.File // nil without a file source
	bus     *bus.Source      // nil without a control plane
	audit   *audit.Log
	sink    io.Closer         // nil for stdout and stderr
	shipper *ship.Shipper     // nil: records are not sent
	tracer  *tracing.Tracer   // nil: nothing is traced
	capture *fixture.Recorder // nil: nothing is captured
	log     *slog.Logger
	level   *slog.LevelVar
	own     []netip.AddrPort
	ca      *proxy.CA
	trust   [2][sha256.Size]byte // what the CA, and the files for tools to trust it by, were made from
	addrs   map[string]string    // what each listener got, by name; "admin" is one of them
	admin   *http.Server
	fence   *proxy.Fence // nil: none is expected
	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan error

	// Reading and putting in force is one step: of two at once, the one that read first could come last.
	reloading, revoking sync.Mutex
	mistake             string // of the last reload, if it failed; guarded by reloading
}

// start brings up everything that the snapshot asks for, or nothing.
func start(path string, s *config.Snapshot, stdout, stderr io.Writer) (_ *app, err error) {
	a := &app{path: path, store: config.NewStore(s), level: new(slog.LevelVar), addrs: map[string]string{}, failed: make(chan error, 1)}
	a.log = newLogger(s.Log, a.level, stderr)
	for _, w := range s.Defaults {
		a.log.Warn("config", "warning", w.String())
	}
	lns, err := a.listen(s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, ln := range lns {
				_ = ln.Close()
			}
			a.fence.Close()
			a.closeTracing()
			a.closeShipper()
			a.closeFixtures()
		}
	}()
	if s.Fence.Rules == config.FenceNetinit {
		if a.fence, err = proxy.OpenFence(s.Fence.ProbePort, a.log); err != nil {
			return nil, err
		}
		a.own = append(a.own, a.fence.Addresses()...)
	}
	a.metrics = proxy.NewMetrics(s, cli.Version())
	gates, err := proxy.NewGates(s, a.own, a.metrics.Broker, nil)
	if err != nil {
		return nil, err
	}
	if err := a.openCA(s.Intercept); err != nil {
		return nil, err
	}
	if err := a.openAudit(s.Audit, stdout, stderr); err != nil {
		return nil, err
	}
	if err := a.openTracing(s.Tracing); err != nil {
		return nil, err
	}
	if err := a.openFixtures(s.Audit.Capture); err != nil {
		return nil, err
	}
	a.openKillSwitch(s.KillSwitch)
	a.proxy = proxy.New(proxy.Options{
		Gates: gates, Kill: a.kill, KillLog: a.killLog, Audit: a.audit, Log: a.log, Metrics: a.metrics, CA: a.ca,
		Fence: a.fence, Tracer: a.tracer, Capture: a.capture,
	})
	a.loadRevocations()
	if err := a.openBus(s.KillSwitch); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	a.serve(ctx, s, lns)
	return a, nil
}

func newLogger(l config.Log, level *slog.LevelVar, w io.Writer) *slog.Logger {
	setLevel(level, l.Level)
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, o)
	if l.Format == "text" {
		h = slog.NewTextHandler(w, o)
	}
	return slog.New(redact.Handler(h))
}

func setLevel(level *slog.LevelVar, name string) {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) == nil {
		level.Set(l)
	}
}

// listen opens every port before anything else starts, so that a port in use is an error of the start.
func (a *app) listen(s *config.Snapshot) (lns []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, ln := range lns {
				_ = ln.Close()
			}
		}
	}()
	// Go would accept Multipath TCP, of which netfilter does not tell where a redirected connection was meant to go.
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	open := func(name, address string) error {
		ln, err := lc.Listen(context.Background(), "tcp", address)
		if err != nil {
			return fmt.Errorf("listener %s: %w", name, err)
		}
		lns = append(lns, ln)
		a.addrs[name] = ln.Addr().String()
		a.own = append(a.own, ln.Addr().(*net.TCPAddr).AddrPort())
		return nil
	}
	for _, l := range s.Listeners {
		if err := open(l.Name, l.Address); err != nil {
			return lns, err
		}
	}
	if s.Admin != "" {
		if err := open("admin", s.Admin); err != nil {
			return lns, err
		}
	}
	return lns, nil
}

func (a *app) serve(ctx context.Context, s *config.Snapshot, lns []net.Listener) {
	for i := range s.Listeners {
		l := &s.Listeners[i]
		a.running.Go(func() { a.fail(a.proxy.Serve(lns[i], l.Name)) })
		a.log.Info("listening", "listener", l.Name, "address", a.addrs[l.Name])
	}
	if s.Admin != "" {
		a.admin = &http.Server{
			Handler: a.proxy.Admin(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
			ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		}
		a.running.Go(func() { a.fail(a.admin.Serve(lns[len(lns)-1])) })
		a.log.Info("listening", "listener", "admin", "address", a.addrs["admin"])
	}
	if a.fence != nil {
		check := func() { _ = a.fence.Check(ctx) }
		a.running.Go(check)
		a.every(ctx, fenceInterval, check)
	}
	a.watch(ctx, a.watched, a.reload, a.recheck)
	a.every(ctx, retryInterval, a.retry)
	if a.file != nil {
		a.watch(ctx, func() []string { return []string{a.file.Path} }, a.loadRevocations, a.loadRevocations)
		// Often enough without a change that the file does not count as stale.
		a.every(ctx, s.KillSwitch.MaxStale/3, a.loadRevocations)
	}
}

// fail ends the process when something that must run for its whole life has ended.
func (a *app) fail(err error) {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case a.failed <- err:
	default:
	}
}

// shutdown drains, for as long as the config allows and ctx lasts, and stops. It returns when everything is recorded, or
// the error of what could not be.
func (a *app) shutdown(ctx context.Context) error {
	s := a.store.Current()
	a.log.Info("draining", "limit", s.Limits.Drain.String())
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Drain)
	defer cancel()
	a.leaveBus(ctx)
	a.proxy.Shutdown(ctx)
	a.stop()
	if a.bus != nil { // not before the last call has ended, which may still be revoked
		a.bus.Close()
	}
	if a.admin != nil { // last, so that /readyz says "draining" to the end
		_ = a.admin.Close()
	}
	a.running.Wait()
	a.fence.Close()
	var spans sync.WaitGroup
	spans.Go(a.closeTracing)
	a.closeFixtures()
	err := a.closeAudit()
	spans.Wait()
	a.log.Info("stopped")
	return err
}
