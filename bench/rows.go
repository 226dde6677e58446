//go:build linux

package main

import (
	"context"
	"time"
)

// loadSize is how much is done in one measurement.
type loadSize struct {
	window, warmup       time.Duration
	settle               time.Duration // after a change, before reading a process's CPU time
	settleMemory         time.Duration // the same before reading its memory
	bulkBytes, bulkWarm  int64
	idle, idleWarm       int
	keepConns, dialConns int
}

func fullLoad() loadSize {
	return loadSize{
		window: 3 * time.Second, warmup: time.Second, settle: 250 * time.Millisecond, settleMemory: 2 * time.Second,
		bulkBytes: 1 << 30, bulkWarm: 64 << 20, idle: 1000, idleWarm: 64, keepConns: 16, dialConns: 8,
	}
}

// quickLoad shrinks what the command line has not given.
func quickLoad(l loadSize, given map[string]bool) loadSize {
	l.warmup, l.settle, l.settleMemory = 50*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond
	l.bulkWarm, l.idleWarm = 1<<20, 8
	if !given["window"] {
		l.window = 200 * time.Millisecond
	}
	if !given["bulk"] {
		l.bulkBytes = 16 << 20
	}
	if !given["idle"] {
		l.idle = 50
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
	mHeapStack = "heapStack"  // KiB of heap and stack in use per idle tunnel
	mFiles     = "files"      // file descriptors per idle tunnel
	mRoutines  = "goroutines" // per idle tunnel
	mBase      = "base"       // MiB of resident memory before the tunnels are opened
	mP50       = "p50"        // µs of one operation
	mP99       = "p99"
)

// row is one kind of work.
type row struct {
	name    string
	measure func(ctx context.Context, l *lab, p *proxy) (sample, error)
}

func (r *row) id() string { return r.name }

var allRows = []*row{
	{"keepalive", func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, false, l.opt.load.keepConns)
	}},
	{"keepalive-tls", func(ctx context.Context, l *lab, p *proxy) (sample, error) {
		return requests(ctx, l, p, true, l.opt.load.keepConns)
	}},
	{"connect", connects},
	{"bulk", bulk},
	{"bulk-idle", bulkAmongIdle},
	{"idle", idle},
	{"latency", func(ctx context.Context, l *lab, p *proxy) (sample, error) { return requests(ctx, l, p, false, 1) }},
}

// requests keeps n tunnels busy, one request at a time in each.
func requests(ctx context.Context, l *lab, p *proxy, tls bool, n int) (sample, error) {
	s, err := l.open(p, tls, n)
	if err != nil {
		return nil, err
	}
	return l.repeat(ctx, p, command{Op: "run", Session: s, Kind: "requests"})
}

// connects opens, uses once and closes tunnels.
func connects(ctx context.Context, l *lab, p *proxy) (sample, error) {
	s, err := l.open(p, false, 0)
	if err != nil {
		return nil, err
	}
	return l.repeat(ctx, p, command{Op: "run", Session: s, Kind: "connects", Workers: l.opt.load.dialConns})
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
	s, err := l.open(p, false, 1)
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
	s, err := l.open(p, false, l.opt.load.idle)
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
	s, err := l.open(p, false, l.opt.load.idleWarm)
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
	if s, err = l.open(p, false, l.opt.load.idle); err != nil {
		return nil, err
	}
	after, err := l.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	n := float64(l.opt.load.idle)
	return sample{
		mRSS:       float64(after.rss-before.rss) / n / 1024,
		mHeapStack: (after.stats.heapInuse + after.stats.stackInuse - before.stats.heapInuse - before.stats.stackInuse) / n / 1024,
		mFiles:     float64(after.files-before.files) / n,
		mRoutines:  (after.stats.goroutines - before.stats.goroutines) / n,
		mBase:      float64(before.rss) / (1 << 20),
	}, l.shut(s)
}

// held is what a proxy's process holds at rest.
type held struct {
	rss   int64
	files int
	stats *goStats
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
