//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is what Toolgate has set itself: a bound on a metric, or on its ratio to a peer's of the same round. A bare time bounds only
// what is a thousand times shorter than what it is part of; elsewhere it would say more about the machine than about the proxy.
type target struct {
	what    string
	row     string
	col     column
	bound   float64
	unit    string
	atLeast bool   // the bound is a floor; otherwise a ceiling
	of      string // the only peer that it is for; empty: each of ours
}

// unbrokered is what a request with a credential is held against: the same without.
const unbrokered = "toolgate-intercept+identity"

// unlogged is what a call with its bodies in the log is held against.
const unlogged = "toolgate-intercept"

var targets = []target{
	{what: "new tunnel, CPU", row: "connect", col: column{metric: mCPU, base: smoke}, bound: 0.60},
	{what: "new tunnel, CPU", row: "connect", col: column{metric: mCPU, base: "squid"}, bound: 1.1},
	{what: "new tunnel, allocations", row: "connect", col: column{metric: mAllocs}, bound: 70},
	{what: "idle tunnel, heap and stack", row: "idle", col: column{metric: mHeapStack}, bound: 6, unit: "KiB"},
	{what: "idle tunnel, descriptors", row: "idle", col: column{metric: mFiles}, bound: 2},
	{what: "RSS with the idle tunnels", row: "idle", col: column{metric: mRSSAll}, bound: 30, unit: "MiB"},
	{what: "p99 of a new tunnel in the crowd, over the unloaded one", row: "crowd", col: column{metric: mAdded}, bound: 50, unit: "ms"},
	{what: "bulk, CPU", row: "bulk", col: column{metric: mCPUGiB, base: smoke}, bound: 0.52},
	{what: "bulk, throughput", row: "bulk", col: column{metric: mSpeed, base: "splice"}, bound: 0.95, atLeast: true},
	{what: "bulk beside idle tunnels, CPU", row: "bulk-idle", col: column{metric: mCPUGiB, base: smoke}, bound: 0.52},
	{what: "bulk beside idle tunnels, throughput", row: "bulk-idle", col: column{metric: mSpeed, base: "splice"}, bound: 0.95, atLeast: true},
	{what: "request in a tunnel, CPU", row: "keepalive", col: column{metric: mCPU, base: "goproxy"}, bound: 1.05},
	{what: "intercepted request, h1, CPU", row: "intercept-h1", col: column{metric: mCPU, base: "floor"}, bound: 2.2},
	{what: "intercepted request, h1, allocations", row: "intercept-h1", col: column{metric: mAllocs}, bound: 60},
	// Stock goproxy keeps two idle connections to an upstream. Beside it stands one that keeps enough, which is the harder peer.
	{what: "intercepted request, h2, rate", row: "intercept-h2", col: column{metric: mRate, base: "goproxy-mitm-2"}, bound: 1.8, atLeast: true},
	{what: "intercepted request, h2, bytes allocated", row: "intercept-h2", col: column{metric: mAllocKiB, base: "goproxy-mitm-2"}, bound: 0.25},
	{what: "intercepted request, h2, rate", row: "intercept-h2", col: column{metric: mRate, base: "goproxy-mitm"}, bound: 1.8, atLeast: true},
	{what: "intercepted request, h2, bytes allocated", row: "intercept-h2", col: column{metric: mAllocKiB, base: "goproxy-mitm"}, bound: 0.25},
	{what: "tool call, h1, CPU with its bodies in the log", row: "call-h1", col: column{metric: mCPU, base: unlogged}, bound: 1.25, of: payloadLogging},
	{what: "tool call, h2, CPU with its bodies in the log", row: "call-h2", col: column{metric: mCPU, base: unlogged}, bound: 1.25, of: payloadLogging},
	{what: "decision, CPU, " + sizeName(decisionSizes[2]), row: "decision", col: column{metric: mCPU}, bound: 1, unit: "µs"},
	{what: "decision, allocations", row: "decision", col: column{metric: mAllocs}, bound: 0},
	// A search among the manifests and then among the domains of one, both logarithmic, would take (3 + 4) / (1 + 2) times as long.
	{what: "decision, " + sizeName(decisionSizes[2]) + " over " + sizeName(decisionSizes[0]), row: "decision", col: column{metric: mGrowth}, bound: 7. / 3, unit: "times"},
	{what: "brokered request, h1, CPU", row: "intercept-h1", col: column{metric: mCPU, base: unbrokered}, bound: 1.1, of: brokering},
	{what: "brokered request, h2, CPU", row: "intercept-h2", col: column{metric: mCPU, base: unbrokered}, bound: 1.1, of: brokering},
	{what: "credential from the cache, CPU", row: "broker", col: column{metric: mCPU}, bound: 1, unit: "µs", of: brokering},
	{what: "credential from the cache, allocations", row: "broker", col: column{metric: mAllocs}, bound: 2, of: brokering},
	{what: "100,000 cached credentials of 350 bytes", row: "broker", col: column{metric: heldName(350)}, bound: 100, unit: "MB", of: brokering},
	{what: "token seen before, CPU", row: "verify", col: column{metric: mSeen}, bound: 2, unit: "µs"},
	{what: "new ES256 token, CPU over that of the bare signature check", row: "verify", col: column{metric: mBare}, bound: 1.3, unit: "times"},
	{what: "p99 of new tokens beside 1,000 junk tokens a second, over that without", row: "verify", col: column{metric: mBeside}, bound: 2, unit: "times"},
	{what: "fetches of keys for junk", row: "verify", col: column{metric: mFetches}, bound: 0},
	{what: "leaf for a new host, CPU", row: "leaf", col: column{metric: mCPU}, bound: 1000, unit: "µs"},
	{what: "leaves for clients that come at once", row: "leaf", col: column{metric: mLeaves}, bound: 1},
	{what: "binary, stripped", row: "binary", col: column{metric: mSize}, bound: 30, unit: "MiB"},
	{what: "RSS idle", row: "binary", col: column{metric: mRSSAll}, bound: 20, unit: "MiB"},
}

// wanted returns the bound as it is written.
func (t target) wanted() string {
	sign, unit := "≤", t.unit
	if t.atLeast {
		sign = "≥"
	}
	if t.col.base != "" {
		unit = "× " + t.col.base
	}
	return strings.TrimSpace(sign + " " + figure(t.bound) + " " + unit)
}

func (t target) keeps(v float64) bool {
	if t.atLeast {
		return v >= t.bound
	}
	return v <= t.bound
}

func writeTargets(b *strings.Builder, opt *options, r *results) {
	b.WriteString("## Targets\n\n| | target | measured | rounds within | |\n|---|---|---|---|---|\n")
	for _, t := range targets {
		if !slices.Contains(names(opt.rows), t.row) {
			continue
		}
		for _, p := range opt.peers {
			if !strings.HasPrefix(p.name, "toolgate") || !p.in(&row{name: t.row}) || t.of != "" && t.of != p.name || t.of == "" && (p.name == brokering || p.name == payloadLogging) {
				continue
			}
			measured, within, verdict := t.judge(r, p.name)
			fmt.Fprintf(b, "| %s: %s | %s | %s | %s | %s |\n", t.what, p.name, t.wanted(), measured, within, verdict)
		}
	}
	b.WriteString("\n")
}

// judge returns the measured value, how many rounds kept the bound, and pass or miss by the median.
func (t target) judge(r *results, peer string) (measured, within, verdict string) {
	values := numbers(t.col.values(r, t.row, peer))
	s, ok := spreadOf(values)
	if !ok {
		return "–", "–", "**not measured**"
	}
	kept := 0
	for _, v := range values {
		if t.keeps(v) {
			kept++
		}
	}
	verdict = "**miss**"
	if t.keeps(s.median) {
		verdict = "pass"
	}
	return cell(values), fmt.Sprintf("%d of %d", kept, len(values)), verdict
}
