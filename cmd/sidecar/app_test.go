package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/devissuer"
)

func TestRevokeAndRestore(t *testing.T) {
	l := newLab(t)
	r := l.start()
	running := []func() error{}
	for _, target := range []string{l.url("https", "pass.ok.test", "/stream"), l.url("https", "bound.ok.test", "/stream"), l.url("http", "plain.ok.test", "/stream")} {
		body := r.open(t, target)
		running = append(running, func() error { _, err := io.Copy(io.Discard, body); return err })
	}
	before := l.read("revocations.yaml")
	l.edit("revocations.yaml", "user:mallory", "user:alice") // of writer and solo: nothing of the reader's
	r.log.find(t, `"revoked","revocation":"both"`)
	r.want(t, "allow")
	l.edit("revocations.yaml", "[writer, solo]", "[writer, reader]")
	for i, end := range running {
		if err := end(); err == nil {
			t.Errorf("stream %d ended as if it were complete", i)
		}
	}
	r.want(t, "revoked")
	l.write("revocations.yaml", before)
	eventually(t, "the tool is restored", func() bool {
		return r.code("multi", "reader", l.mint(nil), l.url("https", "pass.ok.test", "/")) == "allow"
	})
}

// TestBrokenRevocationsKeepTheLastGoodSet, whatever is wrong with the file, and a good file afterwards counts.
func TestBrokenRevocationsKeepTheLastGoodSet(t *testing.T) {
	l := newLab(t)
	r := l.start()
	good := l.read("revocations.yaml")
	revoked := func(what string) {
		t.Helper()
		if got := r.code("multi", "stopped", l.mint(nil), l.url("https", "pass.ok.test", "/")); got != "revoked" {
			t.Errorf("%s: %s", what, got)
		}
	}
	for what, text := range map[string]string{
		"broken":   "revocations: [",
		"empty":    "",
		"another":  "apiVersion: toolgate/v1\nkind: Sidecar\n",
		"too wide": strings.Replace(good, "{tool: [stopped, stopped2]}", "{}", 1),
	} {
		l.write("revocations.yaml", text)
		r.log.find(t, `"revocations not read; the last good set stays in force".*revocations.yaml:\d+:\d+: `)
		revoked(what)
	}
	if err := os.Remove(l.path("revocations.yaml")); err != nil {
		t.Fatal(err)
	}
	r.log.find(t, `"revocations not read.*found no readable file`)
	revoked("removed")
	l.write("revocations.yaml", noRevocations)
	eventually(t, "the tool is restored", func() bool {
		return r.code("multi", "stopped", l.mint(nil), l.url("https", "pass.ok.test", "/")) == "allow"
	})
}

// TestKillSwitchGrowsStale: with the file unreadable for maxStale, risky tools are held, what was revoked stays so, and
// the probe says why. A readable file ends it.
func TestKillSwitchGrowsStale(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "maxStale: 60s", "maxStale: 1s")
	r := l.start()
	code := func(listener, tool string) string {
		return r.code(listener, tool, l.mint(nil), l.url("https", "pass.ok.test", "/"))
	}
	good := l.read("revocations.yaml")
	if got := code("solo", "solo"); got != "allow" {
		t.Fatalf("at first: %s", got)
	}
	if err := os.Remove(l.path("revocations.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the switch is stale", func() bool { return code("solo", "solo") == "kill_switch_stale" })
	for tool, want := range map[string]string{"reader": "allow", "stopped": "revoked", "critical": "kill_switch_stale"} {
		if got := code("multi", tool); got != want {
			t.Errorf("%s: %s, expected %s", tool, got, want)
		}
	}
	if status, page := r.adminPage("/readyz"); status != 503 || !strings.Contains(page, `"kill_switch":"stale: tools of risk high, critical are denied"`) {
		t.Errorf("/readyz: %d %s", status, page)
	}
	l.write("revocations.yaml", good)
	eventually(t, "the switch is heard", func() bool { return code("solo", "solo") == "allow" })
	if status, page := r.adminPage("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, page)
	}
}

// TestKillSwitchHoldsLowerRisks: staleRisks holds tools that would go on.
func TestKillSwitchHoldsLowerRisks(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "file: revocations.yaml, maxStale: 60s", "file: not-there.yaml, staleRisks: [medium, high, critical]")
	r := l.start()
	if got := r.code("multi", "reader", l.mint(nil), l.url("https", "pass.ok.test", "/")); got != "kill_switch_stale" {
		t.Errorf("a tool of medium risk: %s", got)
	}
	if _, page := r.adminPage("/readyz"); !strings.Contains(page, "stale: tools of risk medium, high, critical are denied") {
		t.Errorf("/readyz: %s", page)
	}
}

// TestKillSwitchStaysFresh: a file that nobody touches does not grow stale.
func TestKillSwitchStaysFresh(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "maxStale: 60s", "maxStale: 1s")
	r := l.start()
	until := time.NewTimer(1500 * time.Millisecond)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s := r.kill.Status(); s.Stale {
			t.Fatalf("stale: %+v", s)
		}
		select {
		case <-until.C:
			return
		case <-tick.C:
		}
	}
}

// TestShutdownWritesEveryRecord: calls that run when the drain ends are cut, and each leaves its record, before shutdown
// returns.
func TestShutdownWritesEveryRecord(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "drain: 2s", "drain: 50ms")
	r := l.start()
	hosts := map[string]string{"pass.ok.test": "https", "seen.ok.test": "https", "bound.ok.test": "https", "plain.ok.test": "http"}
	for host, scheme := range hosts {
		body := r.open(t, l.url(scheme, host, "/stream"))
		defer func() {
			if _, err := io.Copy(io.Discard, body); err == nil {
				t.Errorf("the stream of %s ended as if it were complete", host)
			}
		}()
	}
	r.stop()
	var seen []string
	for _, rec := range calls(t, r.records.text()) {
		seen = append(seen, rec.str("host"))
		if rec.str("decision") != "allow" || rec.str("error_class") == "" {
			t.Errorf("record %v", rec)
		}
	}
	slices.Sort(seen)
	if want := []string{"bound.ok.test", "pass.ok.test", "plain.ok.test", "seen.ok.test"}; !slices.Equal(seen, want) {
		t.Errorf("records of %v, expected %v", seen, want)
	}
}

// TestDrainLetsCallsEnd: a call that ends within the drain limit is not cut.
func TestDrainLetsCallsEnd(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "drain: 2s", "drain: 20s")
	r := l.start()
	body := r.open(t, l.url("https", "seen.ok.test", "/stream"))
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	r.log.find(t, `"draining"`)
	eventually(t, "the probe says so", func() bool {
		status, page := r.adminPage("/readyz")
		return status == 503 && strings.Contains(page, `"lifecycle":"draining"`)
	})
	l.tls.CloseClientConnections() // the upstream ends the stream
	_, _ = io.Copy(io.Discard, body)
	select {
	case <-stopped:
	case <-time.After(patience / 2):
		t.Error("the drain waits for a call that has ended")
	}
	if rec := call(t, r.records.text()); rec.str("error_class") == "drained" {
		t.Errorf("record %v", rec)
	}
}

func TestAuditToAFileAppends(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "audit: {output: stdout}", "audit: {output: records.jsonl}")
	for range 2 {
		r := l.start()
		r.want(t, "allow")
		r.stop()
		if text := r.records.text(); text != "" {
			t.Errorf("on stdout: %s", text)
		}
	}
	if n := len(calls(t, l.read("records.jsonl"))); n != 2 {
		t.Errorf("%d records, expected 2", n)
	}
	st, err := os.Stat(l.path("records.jsonl"))
	if err != nil || st.Mode().Perm()&0o007 != 0 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// TestSecretFileChanges: the client secret is read again, without a reload.
func TestSecretFileChanges(t *testing.T) {
	l := newLab(t)
	r := l.start()
	code := func(run string) string { // a run of its own has no cached token
		return r.code("multi", "reader", l.mint(map[string]any{"run_id": run}), l.url("https", "bound.ok.test", "/"))
	}
	if got := code("one"); got != "allow" {
		t.Fatal(got)
	}
	l.issuer.RegisterClient(devissuer.Client{
		ID: "toolgate", Secret: "second-secret", Scopes: []string{"read"}, Audiences: []string{"https://bound.ok.test"},
	})
	if got := code("two"); got != "credential_denied" && got != "credential_unavailable" {
		t.Errorf("with the old secret: %s", got)
	}
	l.write("client-secret", "second-secret")
	eventually(t, "the new secret is used", func() bool { return code("three") == "allow" })
	if ok, failed := r.reloads(); ok != "0" || failed != "0" {
		t.Errorf("%s good reloads, %s bad ones", ok, failed)
	}
}

// TestListenerTokenFileChanges: a rotated token rules from the next call on, and a missing one lets nobody in.
func TestListenerTokenFileChanges(t *testing.T) {
	l := newLab(t)
	r := l.start()
	code := func() string { return r.code("filed", "", "", l.url("https", "pass.ok.test", "/")) }
	if got := code(); got != "allow" {
		t.Fatal(got)
	}
	r.records.find(t, `"run":"run-1"`)
	l.write("listener.jwt", l.mint(map[string]any{"run_id": "run-2"}))
	if got := code(); got != "allow" {
		t.Error(got)
	}
	r.records.find(t, `"run":"run-2"`)
	l.write("listener.jwt", l.mint(map[string]any{"tenant": "globex"}))
	if got := code(); got != "revoked" {
		t.Error(got)
	}
	if err := os.Remove(l.path("listener.jwt")); err != nil {
		t.Fatal(err)
	}
	if got := code(); got != "not_ready" {
		t.Error(got)
	}
}

// TestStartIsAllOrNothing: what was opened before the start failed is closed again.
func TestStartIsAllOrNothing(t *testing.T) {
	l := newLab(t)
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := free.Addr().String()
	_ = free.Close()
	l.edit("sidecar.yaml", `{name: multi, address: "127.0.0.1:0"`, `{name: multi, address: "`+first+`"`)
	for _, c := range []struct{ old, new, want string }{
		{`admin: {address: "127.0.0.1:0"}`, `admin: {address: "` + held.Addr().String() + `"}`, "listener admin"},
		{`output: stdout`, `output: no/such/folder`, "audit.output"},
		{`caOutFile: ca.crt`, `caOutFile: no/such/folder`, "intercept.caOutFile"},
		{`caOutFile: ca.crt`, `bundleOutFile: no/such/folder`, "intercept.bundleOutFile: " + l.path("no/such/folder") + " cannot be written: there is no folder " + l.path("no/such")},
		{`caOutFile: ca.crt`, `trustStoreFile: no/such/folder`, "intercept.trustStoreFile"},
	} {
		good := l.read("sidecar.yaml")
		l.edit("sidecar.yaml", c.old, c.new)
		s, err := config.Load(l.path("sidecar.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := start(l.path("sidecar.yaml"), s, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
			if err == nil {
				_ = a.shutdown(context.Background())
			}
		}
		again, err := net.Listen("tcp", first)
		if err != nil {
			t.Fatalf("%s: the first listener is still open: %v", c.want, err)
		}
		_ = again.Close()
		l.write("sidecar.yaml", good)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "no")); err == nil {
		t.Error("a folder was made")
	}
}
