//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be its own children, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func quickOptions(t *testing.T, args ...string) *options {
	t.Helper()
	opt, err := parseOptions(append([]string{"-quick"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

// TestQuickRun measures peers of this module in every row of theirs and looks for what no run can do without.
func TestQuickRun(t *testing.T) {
	opt := quickOptions(t, "-peers", "direct,splice,goproxy,floor,goproxy-mitm", "-rounds", "2", "-window", "100ms")
	res, err := measureAll(t.Context(), opt, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	within := func(row, peer, metric string, low, high float64) {
		t.Helper()
		values := res.of(row, peer, metric)
		if len(values) != 2 {
			t.Errorf("%s %s %s: %d values, want one per round", row, peer, metric, len(values))
		}
		for _, v := range values {
			if v < low || v > high {
				t.Errorf("%s %s %s = %v, want %v to %v", row, peer, metric, v, low, high)
			}
		}
	}
	for _, peer := range []string{"direct", "goproxy"} {
		for _, row := range []string{"keepalive", "keepalive-tls", "connect", "latency"} {
			within(row, peer, mRate, 10, 1e7)
			within(row, peer, mP50, 1, 1e6)
		}
		within("bulk", peer, mSpeed, 1, 1e6)
	}
	for _, row := range []string{"intercept-h1", "intercept-h2"} {
		within(row, "direct", mRate, 10, 1e7)
		within(row, "goproxy-mitm", mCPU, 5, 1e5)
		within(row, "goproxy-mitm", mAllocs, 20, 1e4)
	}
	within("intercept-h1", "floor", mCPU, 1, 1e4)
	within("bulk", "splice", mCPUGiB, 0.001, 100)
	within("keepalive", "goproxy", mCPU, 0.1, 1e4)
	within("connect", "goproxy", mCPU, 1, 1e5)
	within("connect", "goproxy", mAllocs, 10, 1e4)
	within("bulk", "goproxy", mCPUGiB, 0.001, 100)
	within("bulk-idle", "goproxy", mCPUGiB, 0.001, 100)
	within("idle", "goproxy", mFiles, 4, 7) // two sockets and a pipe in each direction, less those that the warm-up left
	within("idle", "goproxy", mRoutines, 1, 10)
	if v := numbers(res.of("keepalive", "direct", mCPU)); len(v) > 0 {
		t.Errorf("direct has a proxy's CPU time: %v", v)
	}
	text := report(opt, res)
	for _, want := range []string{"smoke run", "| direct |", "| goproxy |", "## Targets", "go run . -peers=direct,splice,goproxy,floor,goproxy-mitm -quick=true"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestSmokescreenLetsTheUpstreamThrough(t *testing.T) {
	var errs bytes.Buffer
	opt := quickOptions(t, "-peers", "smokescreen", "-rows", "connect", "-window", "50ms")
	if _, err := measureAll(t.Context(), opt, &errs); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
}

func TestChildrenEndWithTheRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := openLab(ctx, quickOptions(t, "-peers", "goproxy"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hosted("goproxy")(ctx, l, -1)
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("interrupted"))
	for _, c := range append(l.helpers, p.child) {
		select {
		case <-c.exited:
		case <-time.After(10 * time.Second):
			t.Errorf("process %d outlived its context", c.pid())
			c.stop()
		}
	}
	l.close()
	if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
		t.Errorf("the scratch folder is still there: %v", err)
	}
}

// A peer that refuses must fail the run: a fast refusal would look like a fast proxy.
func TestRefusalIsAnError(t *testing.T) {
	l, err := openLab(t.Context(), quickOptions(t, "-peers", "goproxy"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	_, err = l.open(&proxy{addr: l.upstream.Plain}, plain, 1) // the upstream answers 404 to CONNECT
	if err == nil || !strings.Contains(err.Error(), "CONNECT") {
		t.Fatalf("a refused CONNECT gave %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-peers", "nobody"}, {"-rows", "nothing"}, {"-rounds", "0"}, {"-idle", "-1"}, {"stray"}, {"-window", "0s"}, {"-peers", ""},
	} {
		if _, err := parseOptions(args, io.Discard); !errors.As(err, new(usageError)) {
			t.Errorf("%q gave %v, want a usage error", args, err)
		}
	}
	opt, err := parseOptions([]string{"-quick", "-rounds", "3", "-window", "1s", "-toolgate", "/some/path"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if opt.command != "go run . -quick=true -rounds=3 -window=1s" {
		t.Errorf("the report would say %q", opt.command)
	}
	if opt.rounds != 3 || opt.load.window != time.Second || opt.out != "-" {
		t.Errorf("-quick overrode what was given, or would overwrite the results: %+v", opt)
	}
}

func TestSidecarConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sidecar.yaml")
	read := func(c sidecarConfig) string {
		if err := fill(path, sidecarTemplate, c); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := read(sidecarConfig{Ports: []string{"1", "2", "3"}}); !strings.Contains(text, "required: false") || !strings.Contains(text, "ports: [1, 2, 3]") {
		t.Errorf("without an issuer:\n%s", text)
	}
	if text := read(sidecarConfig{Ports: []string{"1", "2", "3"}, Issuer: "http://127.0.0.1:3", Audience: "a"}); !strings.Contains(text, "required: true") || strings.Contains(text, "required: false") {
		t.Errorf("with an issuer:\n%s", text)
	}
}

// The identity variant must be one: were its listener to let callers through without a token, its figures would be those of
// the other variant.
func TestToolgate(t *testing.T) {
	opt := quickOptions(t, "-peers", "toolgate,toolgate+identity")
	l, err := openLab(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, peer := range opt.peers {
		p, err := peer.start(t.Context(), l, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.child.stop()
		s, err := connects(t.Context(), l, p)
		if err != nil {
			t.Fatalf("%s: %v", peer.name, err)
		}
		if s[mCPU] < 1 || s[mAllocs] < 10 {
			t.Errorf("%s: %v", peer.name, s)
		}
		if peer.name != "toolgate+identity" {
			continue
		}
		for _, auth := range []string{"", p.auth[:len(p.auth)-8] + "AAAAAAAA"} {
			q := *p
			q.auth = auth
			if _, err := l.open(&q, plain, 1); err == nil || !strings.Contains(err.Error(), "407") {
				t.Errorf("with the token %.12q… the proxy answered %v, want 407", auth, err)
			}
		}
	}
}

// What was measured before an interruption is in the report, and the report says that it was interrupted.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	opt := quickOptions(t, "-peers", "direct", "-rows", "keepalive,latency", "-rounds", "3", "-window", "50ms")
	res, err := measureAll(ctx, opt, writerFunc(func(p []byte) {
		if strings.HasPrefix(string(p), "round 2/3  latency") {
			cancel(errors.New("somebody is impatient"))
		}
	}))
	if err == nil || len(numbers(res.of("keepalive", direct, mRate))) != 2 || len(numbers(res.of("latency", direct, mRate))) != 1 {
		t.Errorf("%v, %v", err, res.samples)
	}
	if text := report(opt, res); !strings.Contains(text, "stopped in round 2: somebody is impatient") {
		t.Error(text)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// An absent peer must not look like one that nobody asked for.
func TestAbsentPeerIsLeftOutAloud(t *testing.T) {
	var said bytes.Buffer
	opt := quickOptions(t, "-peers", "direct")
	opt.peers = append(opt.peers, &peer{name: "ghost", program: "no-such-program-anywhere"})
	opt.leaveOut(&said)
	if len(opt.peers) != 1 || !strings.Contains(said.String(), "GHOST IS NOT INSTALLED") {
		t.Errorf("%d peers, said %q", len(opt.peers), &said)
	}
	if text := report(opt, &results{}); !strings.Contains(text, "ghost was not installed and is left out") {
		t.Error(text)
	}
}

// Every target must be of a row that some Toolgate is in, against a peer that is in it as well.
func TestTargetsCanBeMeasured(t *testing.T) {
	for _, target := range targets {
		in := map[string]bool{}
		for _, p := range allPeers {
			if p.in(&row{name: target.row}) {
				in[p.name] = true
				in["toolgate"] = in["toolgate"] || strings.HasPrefix(p.name, "toolgate")
			}
		}
		if !in["toolgate"] || target.col.base != "" && !in[target.col.base] {
			t.Errorf("%s: only %v are in row %s", target.what, in, target.row)
		}
	}
	for _, p := range allPeers {
		for _, name := range strings.Fields(p.rows) {
			if _, err := pick(allRows, name); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}
