//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// column is one column of a row's table: a metric, or that metric against a base peer.
type column struct {
	head   string
	metric string
	base   string // divide by this peer's value of the same round; empty: the value itself
	minus  bool   // subtract instead of dividing
}

const smoke = "smokescreen"

// table is what the report shows of a row.
type table struct {
	row, title string
	columns    []column
}

func tables(l loadSize) []table {
	kept := []column{
		{head: "req/s", metric: mRate}, {head: "× direct", metric: mRate, base: direct}, {head: "× smokescreen", metric: mRate, base: smoke},
		{head: "CPU µs/req", metric: mCPU}, {head: "× smokescreen", metric: mCPU, base: smoke}, {head: "× goproxy", metric: mCPU, base: "goproxy"},
		{head: "allocs/req", metric: mAllocs},
	}
	moved := []column{
		{head: "MB/s", metric: mSpeed}, {head: "× splice", metric: mSpeed, base: "splice"}, {head: "× smokescreen", metric: mSpeed, base: smoke},
		{head: "CPU-s/GiB", metric: mCPUGiB}, {head: "× splice", metric: mCPUGiB, base: "splice"}, {head: "× smokescreen", metric: mCPUGiB, base: smoke},
	}
	intercepted := func(base string) []column {
		return []column{
			{head: "req/s", metric: mRate}, {head: "× direct", metric: mRate, base: direct}, {head: "× " + base, metric: mRate, base: base},
			{head: "CPU µs/req", metric: mCPU}, {head: "× " + base, metric: mCPU, base: base}, {head: "× " + unbrokered, metric: mCPU, base: unbrokered},
			{head: "allocs/req", metric: mAllocs}, {head: "KiB/req", metric: mAllocKiB}, {head: "× " + base, metric: mAllocKiB, base: base},
		}
	}
	logging := []column{
		{head: "req/s", metric: mRate}, {head: "CPU µs/req", metric: mCPU}, {head: "× " + unlogged, metric: mCPU, base: unlogged},
		{head: "allocs/req", metric: mAllocs}, {head: "KiB/req", metric: mAllocKiB}, {head: "p50 µs", metric: mP50}, {head: "p99 µs", metric: mP99},
	}
	var sizes []column
	for _, s := range decisionSizes {
		sizes = append(sizes, column{head: "CPU µs, " + sizeName(s), metric: sizeName(s)})
	}
	credentials := []column{{head: "CPU µs per hit", metric: mCPU}, {head: "allocs per hit", metric: mAllocs}}
	for _, n := range heldSizes {
		credentials = append(credentials, column{head: fmt.Sprintf("MB for 100,000 of %d bytes", n), metric: heldName(n)})
	}
	return []table{
		{"connect", fmt.Sprintf("New tunnels, %d at a time: CONNECT, one GET, close", l.dialConns), []column{
			{head: "conn/s", metric: mRate}, {head: "× direct", metric: mRate, base: direct}, {head: "× smokescreen", metric: mRate, base: smoke},
			{head: "CPU µs/conn", metric: mCPU}, {head: "× smokescreen", metric: mCPU, base: smoke}, {head: "× squid", metric: mCPU, base: "squid"},
			{head: "allocs/conn", metric: mAllocs}, {head: "KiB/conn", metric: mAllocKiB},
		}},
		{"keepalive", fmt.Sprintf("Requests in %d open tunnels, plain HTTP/1.1", l.keepConns), kept},
		{"keepalive-tls", fmt.Sprintf("Requests in %d open tunnels, TLS end to end", l.keepConns), kept},
		{"bulk", fmt.Sprintf("%s through one tunnel, plain", size(l.bulkBytes)), moved},
		{"bulk-idle", fmt.Sprintf("%s through one tunnel, plain, beside %d idle tunnels, as uid %d", size(l.bulkBytes), l.idle, nobody), moved},
		{"idle", fmt.Sprintf("%d idle tunnels, each used once", l.idle), []column{
			{head: "RSS KiB/tunnel", metric: mRSS}, {head: "× smokescreen", metric: mRSS, base: smoke}, {head: "heap+stack KiB/tunnel", metric: mHeapStack},
			{head: "fds/tunnel", metric: mFiles}, {head: "goroutines/tunnel", metric: mRoutines}, {head: "RSS MiB before", metric: mBase}, {head: "RSS MiB with them", metric: mRSSAll},
		}},
		{"crowd", fmt.Sprintf("New tunnels, one at a time, beside %d idle ones", l.crowd), []column{
			{head: "p99 µs without them", metric: mP99Before}, {head: "p50 µs", metric: mP50}, {head: "p99 µs", metric: mP99}, {head: "ms added to p99", metric: mAdded},
			{head: "RSS MiB with them", metric: mRSSAll},
		}},
		{"intercept-h1", fmt.Sprintf("Intercepted requests, HTTP/1.1, %d connections", l.keepConns), intercepted("floor")},
		{"intercept-h2", fmt.Sprintf("Intercepted requests, HTTP/2, %d connections with %d requests at a time", l.h2Conns, l.h2Streams), intercepted("goproxy-mitm")},
		{"call-h1", fmt.Sprintf("Intercepted tool calls, HTTP/1.1, %d connections: %d bytes of JSON each way", l.keepConns, len(callBody)), logging},
		{"call-h2", fmt.Sprintf("Intercepted tool calls, HTTP/2, %d connections with %d at a time: %d bytes of JSON each way", l.h2Conns, l.h2Streams, len(callBody)), logging},
		{"decision", "The decision, in process: tool, address, allowlist, rules, binding; by manifests × domains of one of them", append(sizes,
			column{head: "allocs", metric: mAllocs}, column{head: "largest over smallest", metric: mGrowth})},
		{"broker", "Cached credentials, in process: a hit for a caller with a token of 800 bytes and an actor, and what 100,000 hold", credentials},
		{"verify", "A caller's token (ES256), in process", []column{
			{head: "CPU µs, seen before", metric: mSeen}, {head: "allocs", metric: mAllocs}, {head: "CPU µs, new", metric: mNew}, {head: "× bare signature check", metric: mBare},
			{head: "junk tokens/s", metric: mJunk}, {head: "p99 of new ones beside junk, × without", metric: mBeside}, {head: "fetches of keys for junk", metric: mFetches},
		}},
		{"leaf", fmt.Sprintf("A leaf for a new host, in process, and for %d clients at once", l.herd), []column{
			{head: "CPU µs", metric: mCPU}, {head: "allocs", metric: mAllocs}, {head: "leaves seen", metric: mLeaves},
		}},
		{"binary", fmt.Sprintf("The binary, and its process %s after it is ready", l.rest), []column{
			{head: "MiB, stripped", metric: mSize}, {head: "RSS MiB", metric: mRSSAll},
		}},
		{"latency", "One request at a time in one open tunnel, plain", []column{
			{head: "p50 µs", metric: mP50}, {head: "added to direct", metric: mP50, base: direct, minus: true}, {head: "p99 µs", metric: mP99},
			{head: "added to direct", metric: mP99, base: direct, minus: true},
		}},
	}
}

func size(n int64) string {
	if n%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// values returns what stands in a column for a peer, one value per round.
func (c column) values(r *results, row, peer string) []float64 {
	v := r.of(row, peer, c.metric)
	switch {
	case c.base == "":
		return v
	case c.minus:
		return differences(v, r.of(row, c.base, c.metric))
	default:
		return ratios(v, r.of(row, c.base, c.metric))
	}
}

// report returns RESULTS.md.
func report(opt *options, r *results) string {
	var b strings.Builder
	b.WriteString("# Results of the benchmark\n\n")
	if opt.quick {
		b.WriteString("**A smoke run: too short for its figures to mean anything.**\n\n")
	}
	writeMissing(&b, opt, r)
	writeMethod(&b, opt)
	writeMachine(&b, opt, r)
	writeTargets(&b, opt, r)
	b.WriteString("What is missed, and why: [misses.md](misses.md).\n\n")
	for _, t := range tables(opt.load) {
		if r.samples[t.row] != nil {
			writeTable(&b, opt, r, t)
		}
	}
	writePeers(&b, opt)
	return b.String()
}

// writeMissing says first what a reader would otherwise take for measured.
func writeMissing(b *strings.Builder, opt *options, r *results) {
	for _, name := range opt.absent {
		fmt.Fprintf(b, "**%s was not installed and is left out; `bench/setup.sh` installs it.**\n\n", name)
	}
	for _, err := range r.failures {
		fmt.Fprintf(b, "**%s**\n\n", strings.Join(strings.Fields(err.Error()), " "))
	}
}

func writeMethod(b *strings.Builder, opt *options) {
	fmt.Fprintf(b, `Written by the benchmark itself. To run it again: `+"`cd bench && %s`"+`

## Method

- Forward proxies for CONNECT tunnels on loopback, and relays and a reverse proxy beside them. Load generator, upstream and proxy are
  processes of their own, with an empty environment (so the default GOGC). A proxy is started for each measurement, warmed up, measured
  and killed.
- Rounds: %d. In each round, every row; in each row, every peer in turn, starting with another one each time. Timed windows are %s.
- Answers are %d bytes. In tunnels TLS is between load generator and upstream; in interception the proxy terminates it and verifies the
  upstream.
- A figure is the median of the rounds, with the lowest and highest in brackets. A ratio is taken within each round, and then the median of
  these ratios is shown. All processes share the machine's cores, so rates move much more than CPU time per operation; rates that differ by
  less than a fifth are a tie.
- Each proxy that can decides by an allowlist and formats a record of each call, which goes nowhere; the list of peers says which cannot.
- CPU is the user and system time of the proxy's processes (their CPU clocks). Allocations are the heap's count of objects, of programs in
  Go. RSS is VmRSS; pages that processes of one proxy share count for each.

`, opt.command, opt.rounds, opt.load.window, bodyBytes)
}

func writeMachine(b *strings.Builder, opt *options, r *results) {
	uid := opt.uid
	if uid < 0 {
		uid = os.Getuid()
	}
	var uts syscall.Utsname
	release := "?"
	if syscall.Uname(&uts) == nil {
		release = ""
		for _, c := range uts.Release {
			if c == 0 {
				break
			}
			release += string(rune(c))
		}
	}
	fmt.Fprintf(b, "## Machine\n\n%d cores, Linux %s %s, %s. Proxies as uid %d. %s, %s in all; load average %s before, %s after.\n\n",
		runtime.NumCPU(), release, runtime.GOARCH, runtime.Version(), uid,
		r.began.UTC().Format(time.DateOnly), r.took.Round(time.Second), r.loadBefore, r.loadAfter)
}

func writeTable(b *strings.Builder, opt *options, r *results, t table) {
	fmt.Fprintf(b, "## %s\n\n| |", t.title)
	for _, c := range t.columns {
		fmt.Fprintf(b, " %s |", c.head)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(t.columns)) + "\n")
	for _, p := range opt.in(&row{name: t.row}) {
		fmt.Fprintf(b, "| %s |", p.name)
		for _, c := range t.columns {
			show := cell
			if c.base != "" && !c.minus {
				show = medianCell
			}
			fmt.Fprintf(b, " %s |", show(c.values(r, t.row, p.name)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func writePeers(b *strings.Builder, opt *options) {
	b.WriteString("## Peers\n\n")
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	for _, p := range opt.peers {
		version := ""
		switch {
		case strings.HasPrefix(p.name, "goproxy"):
			version = versions["github.com/elazarl/goproxy"]
		case strings.HasPrefix(p.name, smoke):
			version = versions["github.com/stripe/smokescreen"]
		case p.program != "":
			version = debianVersion(p.find())
		}
		fmt.Fprintf(b, "- %s: %s\n", strings.TrimSpace("**"+p.name+"** "+version), p.about)
	}
}
