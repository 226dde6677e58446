//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// What no socket shows is measured by the proxy package's own benchmarks, in one process without the rest of the sidecar.

// decisionSizes are the configurations of BenchmarkDecision: manifests, and domains that one of them lists; the others list ten each.
var decisionSizes = [][2]int{{10, 100}, {100, 1000}, {1000, 10_000}}

func sizeName(size [2]int) string { return fmt.Sprintf("%d × %d", size[0], size[1]) }

// decision is the CPU time of one decision by the size of the configuration, in µs.
func decision(ctx context.Context, l *lab, _ *proxy) (sample, error) {
	lines, err := l.benchmarks(ctx, "proxy", "^BenchmarkDecision$")
	if err != nil {
		return nil, err
	}
	out := sample{}
	for _, size := range decisionSizes {
		line := lines[fmt.Sprintf("BenchmarkDecision/manifests=%d/domains=%d", size[0], size[1])]
		cpu, ok := line["cpu-ns/op"]
		if !ok {
			return nil, fmt.Errorf("no benchmark of %s", sizeName(size))
		}
		out[sizeName(size)] = cpu / 1000
		out[mCPU], out[mAllocs] = cpu/1000, line["allocs/op"] // the last is the largest
	}
	out[mGrowth] = out[mCPU] / out[sizeName(decisionSizes[0])]
	return out, nil
}

// heldSizes are the tokens of BenchmarkHeld, in bytes: opaque, a small JWT, a large one.
var heldSizes = []int{43, 350, 900}

func heldName(size int) string { return fmt.Sprintf("%s, %d bytes each", mHeld, size) }

// brokerInside is the CPU time of a hit in the cache of credentials, and what 100,000 of them hold.
func brokerInside(ctx context.Context, l *lab, _ *proxy) (sample, error) {
	lines, err := l.benchmarks(ctx, "broker", "^BenchmarkHit$")
	if err != nil {
		return nil, err
	}
	hit := lines["BenchmarkHit/actor"] // a delegation, which is the default
	if hit["cpu-ns/op"] == 0 {
		return nil, fmt.Errorf("no benchmark of hits: %v", lines)
	}
	out := sample{mCPU: hit["cpu-ns/op"] / 1000, mAllocs: hit["allocs/op"]}
	for _, size := range heldSizes { // in a process each: tables that have grown stay
		lines, err := l.benchmarks(ctx, "broker", fmt.Sprintf("^BenchmarkHeld$/^token=%d$", size))
		if err != nil {
			return nil, err
		}
		out[heldName(size)] = lines[fmt.Sprintf("BenchmarkHeld/token=%d", size)]["held-MB"]
	}
	return out, nil
}

// leaf is the CPU time of a new host's leaf, and how many leaves clients see that ask for one new host at once.
func leaf(ctx context.Context, l *lab, p *proxy) (sample, error) {
	lines, err := l.benchmarks(ctx, "proxy", "^BenchmarkLeaf$")
	if err != nil {
		return nil, err
	}
	line := lines["BenchmarkLeaf"]
	if line["cpu-ns/op"] == 0 {
		return nil, fmt.Errorf("no benchmark of leaves: %v", lines)
	}
	r, err := l.ask(command{Op: "open", Route: route{Proxy: p.addr, Auth: p.auth, Target: "new.intercept.bench.example:443", ALPN: secure}})
	if err != nil {
		return nil, err
	}
	herd, err := l.ask(command{Op: "run", Session: r.Session, Kind: "handshakes", Workers: l.opt.load.herd})
	if err != nil {
		return nil, err
	}
	return sample{
		mCPU: line["cpu-ns/op"] / 1000, mAllocs: line["allocs/op"], mLeaves: float64(herd.Distinct),
	}, l.shut(r.Session)
}

// benchmarks runs benchmarks of a package and returns their figures: name, unit, value.
func (l *lab) benchmarks(ctx context.Context, pkg, pattern string) (map[string]map[string]float64, error) {
	path, err := l.buildInside(ctx, pkg)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+l.opt.load.inside, "-test.cpu=1")
	cmd.Dir = l.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	lines := map[string]map[string]float64{}
	for in := bufio.NewScanner(bytes.NewReader(out)); in.Scan(); {
		fields := strings.Fields(in.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		figures := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if figures[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, err
			}
		}
		lines[fields[0]] = figures
	}
	return lines, nil
}

// buildInside builds the tests of a package, once.
func (l *lab) buildInside(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(l.dir, filepath.Base(pkg)+".test")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, "./"+pkg)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the benchmarks of %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// verify is what a caller's token costs: one that was seen before, a new one beside the check of its signature alone, and one beside junk.
func verify(ctx context.Context, l *lab, _ *proxy) (sample, error) {
	lines, err := l.benchmarks(ctx, "identity", "^Benchmark(Seen|New|BesideJunk)$")
	if err != nil {
		return nil, err
	}
	seen, fresh, junk := lines["BenchmarkSeen"], lines["BenchmarkNew"], lines["BenchmarkBesideJunk"]
	if seen["cpu-ns/op"] == 0 || fresh["x-bare"] == 0 || junk["x-p99"] == 0 {
		return nil, fmt.Errorf("benchmarks are missing: %v", lines)
	}
	return sample{
		mSeen: seen["cpu-ns/op"] / 1000, mAllocs: seen["allocs/op"], mNew: fresh["cpu-ns/op"] / 1000, mBare: fresh["x-bare"],
		mJunk: junk["junk/s"], mBeside: junk["x-p99"], mFetches: junk["fetches"],
	}, nil
}

// binary is the size of the program's file, and what the process holds when it is ready and has had nothing to do for a while.
func binary(ctx context.Context, l *lab, p *proxy) (sample, error) {
	file, err := os.Stat(l.sidecar)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, l.opt.load.rest); err != nil {
		return nil, err
	}
	rss, err := residentBytes(p.child.pid())
	if err != nil {
		return nil, err
	}
	return sample{mSize: float64(file.Size()) / (1 << 20), mRSSAll: float64(rss) / (1 << 20)}, nil
}
