//go:build linux

package main

import (
	"fmt"
	"strings"
)

// target is what Toolgate has set itself: a bound on a metric, or on its ratio to smokescreen's of the same round. No
// target is a bare time: that would say more about the machine than about the proxy.
type target struct {
	what  string
	row   string
	col   column
	bound float64
	unit  string
}

var targets = []target{
	{"CPU of a new tunnel", "connect", column{metric: mCPU, base: smoke}, 0.75, "× smokescreen"},
	{"CPU of bulk data", "bulk", column{metric: mCPUGiB, base: smoke}, 0.6, "× smokescreen"},
	{"memory of an idle tunnel", "idle", column{metric: mRSS}, 10, "KiB"},
	{"descriptors of an idle tunnel", "idle", column{metric: mFiles}, 2, "fds"},
}

func writeTargets(b *strings.Builder, opt *options, r *results) {
	b.WriteString("## Targets\n\n| | target | measured | rounds within | |\n|---|---|---|---|---|\n")
	for _, p := range opt.peers {
		if !strings.HasPrefix(p.name, "toolgate") {
			continue
		}
		for _, t := range targets {
			measured, within, verdict := t.judge(r, p.name)
			fmt.Fprintf(b, "| %s, %s | ≤ %s %s | %s | %s | %s |\n", p.name, t.what, figure(t.bound), t.unit, measured, within, verdict)
		}
	}
	b.WriteString("\n")
}

// judge returns the measured value, how many rounds kept the bound, and pass or miss by the median.
func (t target) judge(r *results, peer string) (measured, within, verdict string) {
	values := t.col.values(r, t.row, peer)
	s, ok := spreadOf(values)
	if !ok {
		return "–", "–", "not measured"
	}
	kept := 0
	for _, v := range values {
		if v <= t.bound {
			kept++
		}
	}
	verdict = "miss"
	if s.median <= t.bound {
		verdict = "pass"
	}
	return cell(values), fmt.Sprintf("%d of %d", kept, len(values)), verdict
}
