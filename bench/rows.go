//go:build linux

package main

import (
	"context"
	"errors"
	"time"
)

// loadSize is how much is done in one measurement.
type loadSize struct {
	window, warmup       time.Duration
	settle               time.Duration // after a change, before reading a process's CPU time
	settleMemory         time.Duration // the same before reading its memory
	bulkBytes, bulkWarm  int64
	idle, idleWarm       int
	crowd                int
	keepConns, dialConns int
	h2Conns, h2Streams   int
	herd                 int           // clients at once for one new host
	rest                 time.Duration // before looking at an idle process
	inside               string        // -test.benchtime of what is measured in process
}

func fullLoad() loadSize {
	return loadSize{
		window: 2 * time.Second, warmup: 500 * time.Millisecond, settle: 250 * time.Millisecond, settleMemory: 2 * time.Second,
		bulkBytes: 1 << 30, bulkWarm: 64 << 20, idle: 1000, idleWarm: 64, crowd: 9000, keepConns: 16, dialConns: 8,
		h2Conns: 4, h2Streams: 4, herd: 1000, rest: 10 * time.Second, inside: "1s",
	}
}

// quickLoad shrinks what the command line has not given.
func quickLoad(l loadSize, given map[string]bool) loadSize {
	l.warmup, l.settle, l.settleMemory = 50*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond
	l.bulkWarm, l.idleWarm = 1<<20, 8
	l.herd, l.rest, l.inside = 100, 200*time.Millisecond, "50ms"
	if !given["window"] {
		l.window = 200 * time.Millisecond
	}
	if !given["bulk"] {
		l.bulkBytes = 16 << 20
	}
	if !given["idle"] {
		l.idle = 50
	}
	if !given["crowd"] {
		l.crowd = 500
	}
	return l
}

// sample is one measurement: metric name to value. What a peer cannot say is absent.
type sample map[string]float64

// The metrics.
const (
	mRate      = "rate"       // operations per second
	mCPU       = "cpu"        // µs of the proxy per operation
	mAllocs    = "allocs"     // heap objects of the proxy per operation
	mAllocKiB  = "allocKiB"   // KiB of them
	mSpeed     = "speed"      // MB/s, 10^6 bytes
	mCPUGiB    = "cpuGiB"     // CPU seconds of the proxy per GiB
	mRSS       = "rss"        // KiB of resident memory per idle tunnel
	mRSSAll    = "rssAll"     // MiB of it with the tunnels
	mHeapStack = "heapStack"  // KiB of heap and stack in use per idle tunnel
	mFiles     = "files"      // file descriptors per idle tunnel
	mRoutines  = "goroutines" // per idle tunnel
	mBase      = "base"       // MiB of resident memory before the tunnels are opened
	mP50       = "p50"        // µs of one operation
	mP99       = "p99"
	mP99Before = "p99before"
	mAdded     = "added"  // ms that the idle tunnels add to the p99 of a new one
	mGrowth    = "growth" // of the largest configuration over the smallest
	mLeaves    = "leaves"
	mHeld      = "held" // MB of what is cached
	mSize      = "size" // MiB of the file
	mSeen      = "seen" // µs of a token that was seen before
	mNew       = "new"  // and of one that was not
	mBare      = "bare" // the same over the check of its signature
	mJunk      = "junk" // junk tokens a second
	mBeside    = "beside"
	mFetches   = "fetches"
)

// row is one kind of work.
type row struct {
	name    string
	measure func(ctx context.Context, l *lab, p *proxy) (sample, error)
	uid     int  // of the proxies, where the bench runs as root; 0: as the command line says
	once    bool // in the first round only
	bare    bool // no peer is started for it
}

func (r *row) id() string { return r.name }

// nobody is the uid that a container without privileges has in many images.
const nobody = 65532

// allRows is in the order in which they are measured. What the targets ask for comes first, so that an interrupted run has it.
var allRows = []*row{
	{name: "connect", measure: connects},
	{name: "keepalive", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, plain, l.opt.load.keepConns, 1)
	}},
	{name: "bulk", measure: bulk},
	{name: "bulk-idle", measure: bulkAmongIdle, uid: nobody},
	{name: "idle", measure: idle},
	{name: "crowd", measure: crowd},
	{name: "intercept-h1", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, secure, l.opt.load.keepConns, 1)
	}},
	{name: "intercept-h2", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, h2, l.opt.load.h2Conns, l.opt.load.h2Streams)
	}},
	{name: "call-h1", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return calls(ctx, l, p, secure, l.opt.load.keepConns, 1)
	}},
	{name: "call-h2", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return calls(ctx, l, p, h2, l.opt.load.h2Conns, l.opt.load.h2Streams)
	}},
	{name: "decision", measure: decision, bare: true},
	{name: "broker", measure: brokerInside, bare: true},
	{name: "verify", measure: verify, bare: true},
	{name: "leaf", measure: leaf},
	{name: "binary", measure: binary, once: true},
	{name: "keepalive-tls", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, secure, l.opt.load.keepConns, 1)
	}},
	{name: "latency", measure: func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, plain, 1, 1)
	}},
}

// requests keeps n tunnels busy, as many requests at a time in each as there are streams.
func requests(ctx context.Context, l *lab, p *proxy, way string, n, streams int) (sample, error) {
	s, err := l.open(p, way, n)
	if err != nil {
		return nil, err
	}
	return l.repeat(ctx, p, command{Op: "run", Session: s, Kind: "requests", Streams: streams})
}

// connects opens, uses once and closes tunnels.
func connects(ctx context.Context, l *lab, p *proxy) (sample, error) {
	s, err := l.open(p, plain, 0)
	if err != nil {
		return nil, err
	}
	return l.repeat(ctx, p, command{Op: "run", Session: s, Kind: "connects", Workers: l.opt.load.dialConns})
}

// crowd measures new tunnels one at a time, alone and beside many idle ones.
func crowd(ctx context.Context, l *lab, p *proxy) (sample, error) {
	s, err := l.open(p, plain, 0)
	if err != nil {
		return nil, err
	}
	c := command{Op: "run", Session: s, Kind: "connects", Workers: 1}
	c.Window = l.opt.load.warmup
	if _, err := l.ask(c); err != nil {
		return nil, err
	}
	c.Window = l.opt.load.window
	alone, err := l.ask(c)
	if err != nil {
		return nil, err
	}
	many, err := l.open(p, plain, l.opt.load.crowd)
	if err != nil {
		return nil, err
	}
	h, err := l.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	beside, err := l.ask(c)
	if err != nil {
		return nil, err
	}
	return sample{
		mP99Before: micros(alone.P99), mP50: micros(beside.P50), mP99: micros(beside.P99),
		mAdded: micros(beside.P99-alone.P99) / 1000, mRSSAll: float64(h.rss) / (1 << 20),
	}, errors.Join(l.shut(many), l.shut(s))
}

// repeat warms up, then measures one window, and closes the session.
func (l *lab) repeat(ctx context.Context, p *proxy, c command) (sample, error) {
	c.Window = l.opt.load.warmup
	if _, err := l.ask(c); err != nil {
		return nil, err
	}
	c.Window = l.opt.load.window
	r, cost, err := l.work(ctx, p, c)
	if err != nil {
		return nil, err
	}
	ops := float64(r.Ops)
	out := sample{mRate: ops / r.Elapsed.Seconds(), mP50: micros(r.P50), mP99: micros(r.P99)}
	if cost != nil {
		out[mCPU] = micros(cost.cpu) / ops
		out[mAllocs] = max(0, cost.allocs/ops)
		out[mAllocKiB] = max(0, cost.bytes/ops/1024)
	}
	return out, l.shut(c.Session)
}

// bulk reads one long answer through one tunnel.
func bulk(ctx context.Context, l *lab, p *proxy) (sample, error) {
	s, err := l.open(p, plain, 1)
	if err != nil {
		return nil, err
	}
	c := command{Op: "run", Session: s, Kind: "bulk", Bytes: l.opt.load.bulkWarm}
	if _, err := l.ask(c); err != nil {
		return nil, err
	}
	c.Bytes = l.opt.load.bulkBytes
	r, cost, err := l.work(ctx, p, c)
	if err != nil {
		return nil, err
	}
	out := sample{mSpeed: float64(c.Bytes) / 1e6 / r.Elapsed.Seconds()}
	if cost != nil {
		out[mCPUGiB] = cost.cpu.Seconds() / float64(c.Bytes) * (1 << 30)
	}
	return out, l.shut(s)
}

// bulkAmongIdle is bulk while idle tunnels are open. It shows what a proxy does once its uid has used up the kernel's
// quota of pipe memory.
func bulkAmongIdle(ctx context.Context, l *lab, p *proxy) (sample, error) {
	s, err := l.open(p, plain, l.opt.load.idle)
	if err != nil {
		return nil, err
	}
	out, err := bulk(ctx, l, p)
	if err != nil {
		return nil, err
	}
	return out, l.shut(s)
}

// idle opens tunnels, uses each once, and looks at what the proxy holds for them when nothing moves. The proxy has
// served a few tunnels before, so that its first allocations are not charged to the idle ones.
func idle(ctx context.Context, l *lab, p *proxy) (sample, error) {
	if p.child == nil {
		return sample{}, nil
	}
	s, err := l.open(p, plain, l.opt.load.idleWarm)
	if err != nil {
		return nil, err
	}
	if err := l.shut(s); err != nil {
		return nil, err
	}
	before, err := l.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	if s, err = l.open(p, plain, l.opt.load.idle); err != nil {
		return nil, err
	}
	after, err := l.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	n := float64(l.opt.load.idle)
	out := sample{
		mRSS:    float64(after.rss-before.rss) / n / 1024,
		mRSSAll: float64(after.rss) / (1 << 20),
		mFiles:  float64(after.files-before.files) / n,
		mBase:   float64(before.rss) / (1 << 20),
	}
	if after.stats != nil {
		out[mHeapStack] = (after.stats.heapInuse + after.stats.stackInuse - before.stats.heapInuse - before.stats.stackInuse) / n / 1024
		out[mRoutines] = (after.stats.goroutines - before.stats.goroutines) / n
	}
	return out, l.shut(s)
}

// held is what a proxy's process holds at rest.
type held struct {
	rss   int64
	files int64
	stats *goStats // nil of a proxy that does not tell
}

func (l *lab) holding(ctx context.Context, p *proxy) (h held, err error) {
	if err = pause(ctx, l.opt.load.settleMemory); err != nil {
		return h, err
	}
	if h.rss, err = residentBytes(p.child.pid()); err != nil {
		return h, err
	}
	if h.files, err = openFiles(p.child.pid()); err != nil {
		return h, err
	}
	h.stats, err = scrape(ctx, p.metrics)
	return h, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
