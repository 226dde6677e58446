//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// fleetResult is what became of a fleet.
type fleetResult struct {
	clients   int
	joined    time.Duration // all connect at once, until the last has the log
	rss, heap float64       // KiB for each client at the control plane
	stacks    float64       // the same of goroutines' stacks
	live      float64       // and of the heap, what is not garbage
	free      float64       // and of the RSS, pages that the runtime has freed and not yet given back
	cpu       float64       // of the control plane for each client, while nothing happens, in µs/s
	routines  float64       // goroutines of the control plane for each client
	effects   times         // from signing, of all revocations together
	acks      times         // from signing to the last acknowledgement, of each revocation
	rate      float64       // acknowledgements a second, in the median revocation
	spent     float64       // CPU of the control plane for each client and revocation, in µs, over what it takes when idle
	ownIdle   float64       // as cpu, of a client itself
	ownSpent  float64       // as spent, of a client itself
	command   times         // from signing until the command had returned
	storm     *stormResult
}

// stormResult is what became of a fleet whose control plane was killed and came back.
type stormResult struct {
	settled time.Duration // from its start until all are connected, have heard it and are at the last revision
	effects times         // of the revocations meanwhile
	cpu     time.Duration // of the control plane until then
	revoked int
}

// clients is the process with the fleet in it.
type clients struct{ *child }

func (c clients) order(o fleetOrder) (*fleetAnswer, error) {
	if err := json.NewEncoder(c.stdin).Encode(o); err != nil {
		return nil, err
	}
	var a fleetAnswer
	if err := c.read(&a); err != nil {
		return nil, fmt.Errorf("the fleet: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return &a, nil
}

// patient is how long a fleet may take for anything.
const patient = 3 * time.Minute

func (k *killRun) measureFleet(ctx context.Context, n int, storm bool) error {
	p, err := k.lab.startPlane(ctx, k.program)
	if err != nil {
		return err
	}
	defer func() { p.child.stop() }()
	child, err := spawnSelf(ctx, -1, k.lab.self, "fleet", &struct{}{})
	if err != nil {
		return err
	}
	defer child.stop()
	c, f := clients{child}, &fleetResult{clients: n}
	if err := k.join(ctx, p, c, f); err != nil {
		return err
	}
	if err := k.reach(ctx, p, c, f); err != nil {
		return err
	}
	k.fleet = append(k.fleet, f)
	bound := 500.
	if n > 1000 {
		bound = 2000
	}
	of := fmt.Sprintf("%d sidecars: ", n)
	k.mark(of+"signing until the effect, p99", millis(f.effects.at(99)), bound, "ms")
	k.mark(of+"RSS of the control plane for each", f.rss, 64, "KiB")
	k.mark(of+"heap of the control plane for each", f.heap, 64, "KiB")
	if !storm {
		return nil
	}
	if err := k.storm(ctx, p, c, f); err != nil {
		return err
	}
	k.mark(of+"all back, at the last revision, after the control plane's restart", f.storm.settled.Seconds(), 15, "s")
	return nil
}

// join lets the fleet connect, and looks at what it costs while nothing happens.
func (k *killRun) join(ctx context.Context, p *plane, c clients, f *fleetResult) error {
	if _, err := p.command(ctx, "drill", "--timeout", "0", "--reason", "a log to read"); err != nil {
		return err
	}
	if err := pause(ctx, k.lab.opt.load.settleMemory); err != nil {
		return err
	}
	before, err := p.memory(ctx)
	if err != nil {
		return err
	}
	a, err := c.order(fleetOrder{Op: "join", N: f.clients, Plane: *p, Within: patient})
	if err != nil {
		return err
	}
	f.joined = a.Took
	if err := p.live(ctx, f.clients); err != nil {
		return err
	}
	idle, err := spending(p, c)
	if err != nil {
		return err
	}
	if err := pause(ctx, k.size.idle); err != nil {
		return err
	}
	f.cpu, f.ownIdle, err = idle(f.clients)
	if err != nil {
		return err
	}
	after, err := p.memory(ctx)
	if err != nil {
		return err
	}
	n := float64(f.clients)
	f.rss, f.heap = (after.rss-before.rss)/n/1024, (after.heap-before.heap)/n/1024
	f.stacks, f.live, f.free = (after.stacks-before.stacks)/n/1024, (after.live-before.live)/n/1024, (after.free-before.free)/n/1024
	f.routines = (after.goroutines - before.goroutines) / n
	return nil
}

// spending returns what tells the CPU time that control plane and clients have taken since, for each client, in µs a second.
func spending(p *plane, c clients) (func(n int) (plane, client float64, err error), error) {
	read := func() (plane, own time.Duration, err error) {
		plane, err = cpuTime(p.child.pid())
		if err == nil {
			own, err = cpuTime(c.pid())
		}
		return plane, own, err
	}
	began := time.Now()
	plane, own, err := read()
	return func(n int) (float64, float64, error) {
		planeNow, ownNow, err := read()
		per := func(d time.Duration) float64 {
			return float64(d.Microseconds()) / float64(n) / time.Since(began).Seconds()
		}
		return per(planeNow - plane), per(ownNow - own), err
	}, err
}

// planeMemory is what a control plane holds, in bytes.
type planeMemory struct {
	soakSample
	stacks, live, free float64
}

func (p *plane) memory(ctx context.Context) (m planeMemory, err error) {
	if m.soakSample, err = sampleOf(ctx, p.proxy()); err != nil {
		return m, err
	}
	stats, err := scrape(ctx, p.metrics())
	if err != nil {
		return m, err
	}
	goal, err := scrapeOne(ctx, p.metrics(), "go_memstats_next_gc_bytes")
	if err != nil {
		return m, err
	}
	percent, err := scrapeOne(ctx, p.metrics(), "go_gc_gogc_percent")
	// The collector's goal is the live heap and, on top, its percentage of the live heap and of what it scans of stacks
	// (runtime/debug.SetGCPercent). Of idle goroutines that is next to nothing: their stacks are nearly empty, however large.
	idle, err1 := scrapeOne(ctx, p.metrics(), "go_memstats_heap_idle_bytes")
	released, err2 := scrapeOne(ctx, p.metrics(), "go_memstats_heap_released_bytes")
	err, m.free = errors.Join(err, err1, err2), idle-released
	m.stacks, m.live = stats.stackInuse, goal/(1+percent/100)
	return m, err
}

// proxy lets a control plane be looked at as a sidecar is.
func (p *plane) proxy() *proxy { return &proxy{child: p.child, metrics: p.metrics()} }

// revoke cuts a call at each member of the fleet. The answer is the fleet's.
func (k *killRun) revoke(ctx context.Context, p *plane, c clients, id string) (*outcome, *fleetAnswer, error) {
	if _, err := c.order(fleetOrder{Op: "arm", Tenant: id}); err != nil {
		return nil, nil, err
	}
	o, err := p.command(ctx, "revoke", "--tenant", id, "--id", id, "--reason", "bench", "--yes")
	if err != nil {
		return nil, nil, err
	}
	a, err := c.order(fleetOrder{Op: "effect", ID: id, Within: patient})
	return o, a, err
}

// reach revokes again and again.
func (k *killRun) reach(ctx context.Context, p *plane, c clients, f *fleetResult) error {
	began := time.Now()
	busy, err := spending(p, c)
	if err != nil {
		return err
	}
	for i := range k.size.each {
		o, a, err := k.revoke(ctx, p, c, fmt.Sprint("fleet-", i))
		if err != nil {
			return err
		}
		if o.Progress.Acked != f.clients || o.Progress.Cut != f.clients || a.Cut != f.clients {
			return fmt.Errorf("of %d sidecars %d have acknowledged; %d calls were cut and %d acknowledged so", f.clients, o.Progress.Acked, a.Cut, o.Progress.Cut)
		}
		f.effects = append(f.effects, a.Effects...)
		f.acks, f.command = append(f.acks, o.Progress.Slowest), append(f.command, o.returned.Sub(o.Entry.At))
		if err := pause(ctx, k.lab.opt.load.settle); err != nil {
			return err
		}
	}
	slices.Sort(f.effects)
	slices.Sort(f.acks)
	slices.Sort(f.command)
	f.rate = float64(f.clients) / f.acks.at(50).Seconds()
	spent, own, err := busy(f.clients)
	each := time.Since(began).Seconds() / float64(k.size.each)
	f.spent, f.ownSpent = (spent-f.cpu)*each, (own-f.ownIdle)*each
	return err
}

// storm kills the control plane and starts it again, and revokes while the fleet comes back.
func (k *killRun) storm(ctx context.Context, p *plane, c clients, f *fleetResult) error {
	p.child.stop()
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	began := time.Now()
	if err := p.start(ctx); err != nil {
		return err
	}
	s := &stormResult{}
	var last uint64
	var ids []string
	for i := range k.size.storm {
		id := fmt.Sprint("storm-", i)
		o, err := p.command(ctx, "revoke", "--tenant", id, "--id", id, "--reason", "bench", "--yes", "--timeout", "0")
		if err != nil {
			return err
		}
		last, ids = o.Entry.Revision, append(ids, id)
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	if _, err := c.order(fleetOrder{Op: "settle", Revision: last, After: began, Within: patient}); err != nil {
		return err
	}
	s.settled, s.revoked = time.Since(began), len(ids)
	for _, id := range ids {
		a, err := c.order(fleetOrder{Op: "effect", ID: id, Within: time.Second})
		if err != nil {
			return fmt.Errorf("missed: %w", err)
		}
		s.effects = append(s.effects, a.Effects...)
	}
	slices.Sort(s.effects)
	var err error
	s.cpu, err = cpuTime(p.child.pid())
	f.storm = s
	return err
}
