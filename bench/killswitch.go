//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// killSize is how much is done in a run of -killswitch.
type killSize struct {
	fleets  []int         // sidecars
	runs    int           // revocations at one sidecar
	each    int           // revocations in each fleet
	tunnels int           // of one sidecar that are cut at once
	idle    time.Duration // for which a fleet is looked at while nothing happens
	storm   int           // revocations while a fleet comes back
}

func newKillSize(clients string, quick, given bool) (*killSize, error) {
	k := &killSize{runs: 200, each: 20, tunnels: 9000, idle: 40 * time.Second, storm: 5}
	if quick {
		k = &killSize{runs: 3, each: 2, tunnels: 40, idle: time.Second, storm: 2}
		if !given {
			clients = "20"
		}
	}
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 100_000 {
			return nil, fmt.Errorf("-clients: %q is no number of sidecars", text)
		}
		k.fleets = append(k.fleets, n)
	}
	return k, nil
}

// killRun is one run of -killswitch.
type killRun struct {
	lab      *lab
	size     *killSize
	program  string // killswitch, built
	progress io.Writer
	results
	marks []mark
	parts []partLoad
	one   *oneResult
	crowd *crowdResult
	fleet []*fleetResult
	set   *setResult
}

// mark is a target and what was measured of it.
type mark struct {
	what       string
	got, bound float64
	unit       string
}

func (m mark) kept() bool { return m.got <= m.bound }

func (k *killRun) mark(what string, got, bound float64, unit string) {
	k.marks = append(k.marks, mark{what, got, bound, unit})
}

// runKillSwitch measures, and writes the report with what it has also when something failed.
func runKillSwitch(ctx context.Context, opt *options, stdout, stderr io.Writer) error {
	k, err := measureKillSwitch(ctx, opt, stderr)
	if k == nil {
		return err
	}
	return errors.Join(err, opt.write(k.report(opt), stdout))
}

func measureKillSwitch(ctx context.Context, opt *options, progress io.Writer) (*killRun, error) {
	var err error
	if opt.peers, err = pick(allPeers, "toolgate-intercept"); err != nil {
		return nil, err
	}
	k := &killRun{size: opt.kill, progress: progress, results: results{began: time.Now(), loadBefore: loadAverage()}}
	if k.lab, err = openLab(ctx, opt); err != nil {
		return nil, err
	}
	defer k.lab.close()
	if k.program, err = k.lab.buildPlane(ctx); err != nil {
		return nil, err
	}
	k.try(ctx, "the set", k.measureSet)
	k.try(ctx, "one sidecar", k.measureOne)
	k.try(ctx, "a crowd of tunnels", k.measureCrowd)
	for i, n := range k.size.fleets {
		k.try(ctx, fmt.Sprintf("a fleet of %d", n), func(ctx context.Context) error { return k.measureFleet(ctx, n, i == 0) })
	}
	k.took, k.loadAfter = time.Since(k.began), loadAverage()
	return k, errors.Join(k.failures...)
}

// try measures one part. What fails is in the report, and the other parts go on.
func (k *killRun) try(ctx context.Context, what string, measure func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintln(k.progress, what)
	if before, err := readLoad(); err == nil {
		defer func() {
			if after, err := readLoad(); err == nil {
				k.parts = append(k.parts, partLoad{what, before.others(after)})
			}
		}()
	}
	if err := measure(ctx); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		fmt.Fprintln(k.progress, "FAILED:", err)
		k.failures = append(k.failures, err)
	}
}

// setResult is what the sidecar's set of revocations costs, in process.
type setResult struct {
	check, allocs                     float64 // ns of CPU
	amendEmpty, amend, wholeOne, load float64 // µs of CPU
}

func (k *killRun) measureSet(ctx context.Context) error {
	lines, err := k.lab.benchmarks(ctx, "killswitch", "^Benchmark(Check|Amend|ApplyOne|ApplyAll)$")
	if err != nil {
		return err
	}
	for _, name := range []string{"Check/10000", "Amend/0", "Amend/10000", "ApplyOne", "ApplyAll"} {
		if lines["Benchmark"+name]["cpu-ns/op"] == 0 {
			return fmt.Errorf("no benchmark %s", name)
		}
	}
	micros := func(name string) float64 { return lines["Benchmark"+name]["cpu-ns/op"] / 1000 }
	k.set = &setResult{
		check: lines["BenchmarkCheck/10000"]["cpu-ns/op"], allocs: lines["BenchmarkCheck/10000"]["allocs/op"],
		amendEmpty: micros("Amend/0") / 2, amend: micros("Amend/10000") / 2, wholeOne: micros("ApplyOne"), load: micros("ApplyAll"),
	}
	k.mark("looking at 10,000 revocations, CPU of each call", k.set.check, 500, "ns")
	k.mark("looking at 10,000 revocations, allocations", k.set.allocs, 0, "")
	k.mark("one more live revocation beside 10,000, CPU", k.set.amend/1000, 5, "ms")
	k.mark("one more entry in a file of 10,000, CPU", k.set.wholeOne/1000, 5, "ms")
	return nil
}

// times are durations of one kind, ascending.
type times []time.Duration

func (t times) at(percent int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(len(t)-1, len(t)*percent/100)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
