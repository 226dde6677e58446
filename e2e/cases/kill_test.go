//go:build linux

package cases

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func killCases() []replay {
	return []replay{
		{"KIL-02", "rhobuild/runpool#58",
			"an intercepted response without end, a WebSocket-like tunnel and a plain download; then their task is revoked",
			"each client sees an aborted read, none a clean end", cutsWhatRuns},
		{"KIL-04", "TencentCloud/CubeSandbox#1399",
			"task k1 is revoked while k2 of the same agent and tenant B are busy", "only k1's connections end", cutsNothingElse},
		{"KIL-06", "nebula-mesh CVE-2026-53602; mcp-hangar#1306",
			"a revocation, kill -9, a restart without control plane", "denied from the first call on; risky tools wait for the control plane", restartWithoutControlPlane},
		{"KIL-08", "mcp-hangar#1306",
			"the control plane is away for longer than maxStale", "the last set rules until then, and then risky tools are held; metric and readiness tell both", outOfTouch},
		{"KIL-09", "policy rollback",
			"entry 7 and then 6, both signed; then a control plane whose log ends at 6", "refused and logged; 7 stays in force", olderLog},
		{"KIL-10", "linkerd CVE-2024-40632; caddy CVE-2026-27589",
			"POST to /admin/kill, /admin/unkill, /config, /quit from the tool, in all the ways that have worked elsewhere", "no route, nothing changed", noRemoteControl},
		{"KIL-11", "a tenant's operator who passes the check of the path and not that of the target",
			"the admin of tenant A kills and restores tenant B: by selector, by id, by other spellings of the path, by proposal, drill and import",
			"403 each time; tenant B's stream runs on, and what B has revoked stays so", ownTenantOnly},
		{"KIL-13", "race of exchange and revocation",
			"the token endpoint answers after the revocation", "the call is denied, the token is neither used nor kept", exchangeInFlight},
	}
}

// central starts a control plane that sidecars may connect to.
func (l *lab) central(t *testing.T) *bustest.Central {
	t.Helper()
	c := bustest.Start(t, 100*time.Millisecond)
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(c.Address()))
	return c
}

// governed lets a control plane rule.
func governed(c *bustest.Central, maxStale string) func(*settings) {
	return func(s *settings) {
		s.kill = fmt.Sprintf("{nats: {servers: [%q], publicKey: %q}, stateDir: state, maxStale: %s}", c.URL(), c.Signer.PublicKey(), maxStale)
	}
}

func risky(s *settings) { s.risk = "high" }

// endless answers with a stream that ends with its client only.
func (l *lab) endless() {
	l.up.handle("api.ok.test", func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "data: first\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
}

// watch opens a stream and returns how it ends.
func (w *world) watch(t *testing.T, listener, token, target string) <-chan error {
	t.Helper()
	res, err := w.client(t, listener, token, false).Get(target)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "data: first\n" {
		t.Fatalf("%d, first line %q, %v", res.StatusCode, line, err)
	}
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		_ = res.Body.Close()
		end <- err
	}()
	return end
}

func cut(t *testing.T, what string, end <-chan error) {
	t.Helper()
	select {
	case err := <-end:
		if err == nil {
			t.Errorf("%s looks complete to its client", what)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("%s runs on", what)
	}
}

func runs(t *testing.T, what string, end <-chan error) {
	t.Helper()
	select {
	case err := <-end:
		t.Errorf("%s has ended: %v", what, err)
	default:
	}
}

func (w *world) task(t *testing.T, tenant, task string) string {
	t.Helper()
	return w.mint(t, map[string]any{"sub": "user:alice", "tenant": tenant, "agent_id": "a1", "task_id": task, "run_id": "r-" + task})
}

func cutsWhatRuns(t *testing.T, w *world) {
	c := w.central(t)
	k := w.lab.world(t, governed(c, "60s"))
	w.endless()
	intercepted := k.watch(t, k.t1, k.tokenA, "https://api.ok.test/stream")
	plain := k.watch(t, k.t1, k.tokenA, "http://api.ok.test/stream")
	blind := make(chan error, 1)
	tunnel := k.open(t, "a.wild.test:443")
	go func() { _, err := tunnel.r.ReadByte(); blind <- err }()
	began := time.Now()
	c.Revoke("kil-02", ledger.Selector{Task: []string{"k1"}})
	cut(t, "the intercepted stream", intercepted)
	cut(t, "the plain download", plain)
	cut(t, "the tunnel", blind)
	t.Logf("all cut after %v", time.Since(began))
	k.connect(t, "a.wild.test:443").is(t, "a new call", http.StatusForbidden)
	eventually(t, "counted", func() bool { return k.metric(t, "toolgate_calls_cut_total", "t1") >= 3 })
	eventually(t, "acknowledged", func() bool { return k.metric(t, "toolgate_kill_switch_acks_total", `"ok"`) == 1 })
	if n := k.metric(t, "toolgate_kill_switch_propagation_seconds_count", ""); n != 1 {
		t.Errorf("%d propagations", n)
	}
	c.Restore("kil-02")
	eventually(t, "restored", func() bool { return k.connect(t, "a.wild.test:443").status == http.StatusOK })
}

func cutsNothingElse(t *testing.T, w *world) {
	c := w.central(t)
	k := w.lab.world(t, governed(c, "60s"))
	w.endless()
	const target = "https://api.ok.test/stream"
	k1 := k.watch(t, k.t1, k.task(t, "A", "k1"), target)
	k2 := k.watch(t, k.t1, k.task(t, "A", "k2"), target)
	b := k.watch(t, k.t2, k.task(t, "B", "kb"), target)
	c.Revoke("kil-04", ledger.Selector{Task: []string{"k1"}, Tenant: []string{"A"}})
	cut(t, "k1", k1)
	runs(t, "k2", k2)
	runs(t, "tenant B's", b)
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "ok") })
	for listener, token := range map[string]string{k.t1: k.task(t, "A", "k2"), k.t2: k.task(t, "B", "kb")} {
		res, err := k.client(t, listener, token, false).Get("https://api.ok.test/")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("a new call of another task: %v, %v", res, err)
			continue
		}
		_ = res.Body.Close()
	}
}

func restartWithoutControlPlane(t *testing.T, w *world) {
	c := w.central(t)
	for _, risk := range []string{"low", "high"} {
		k := w.lab.world(t, governed(c, "60s"), func(s *settings) { s.risk = risk })
		c.Revoke("kil-06-"+risk, ledger.Selector{Tool: []string{"t1"}})
		eventually(t, "revoked", func() bool { return k.connect(t, "a.wild.test:443").code == "revoked" })
		k.saved(t, c, "kil-06-"+risk)
		k.mayEnd = true
		_ = k.cmd.Process.Kill()
		<-k.exited
		c.Stop()
		k.mayEnd = false
		k.startUntil(t, "it listens", func() bool { return true })
		if got := k.connect(t, "a.wild.test:443"); got.code != "revoked" {
			t.Errorf("%s: the first call after the restart: %d %s", risk, got.status, got.code)
		}
		k.write(t, "token", k.tokenA)
		explain := k.command("explain")
		explain.Args = append(explain.Args, "--tool", "t1", "--url", "a.wild.test:443", "--token-file", filepath.Join(k.dir, "token"))
		if out, err := explain.Output(); err == nil || !strings.Contains(string(out), "deny: 403 revoked") {
			t.Errorf("%s: explain, which reads the saved state: %v\n%s", risk, err, out)
		}
		// Tool t2 is not revoked. Nobody knows whether it still is not.
		other := map[string]int{"low": http.StatusOK, "high": http.StatusServiceUnavailable}[risk]
		a := dialProxy(t, k.t2)
		a.send(t, "CONNECT a.wild.test:443 HTTP/1.1\r\nHost: a.wild.test:443\r\nProxy-Authorization: "+basic(k.tokenB)+"\r\n\r\n")
		a.read(t, "CONNECT").is(t, risk+": another tool", other)
		if status, page := k.adminGet("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(page, "stale") {
			t.Errorf("%s: /readyz: %d %s", risk, status, page)
		}
		c.Run()
		eventually(t, "in touch again", k.ready)
		c.Restore("kil-06-" + risk)
		eventually(t, "restored", func() bool { return k.connect(t, "a.wild.test:443").status == http.StatusOK })
		k.stop(t)
	}
}

// saved waits until a revocation is on disk.
func (w *world) saved(t *testing.T, c *bustest.Central, id string) {
	t.Helper()
	eventually(t, "saved", func() bool {
		state, err := bus.LoadState(filepath.Join(w.dir, "state"), c.Keys())
		if err != nil {
			return false
		}
		_, there := state.Get(id)
		return there
	})
}

func outOfTouch(t *testing.T, w *world) {
	c := w.central(t)
	k := w.lab.world(t, governed(c, "3s"), risky)
	c.Revoke("kil-08", ledger.Selector{Host: []string{"b.wild.test"}})
	eventually(t, "in force", func() bool { return k.connect(t, "b.wild.test:443").code == "revoked" })
	k.connect(t, "a.wild.test:443").is(t, "in touch", http.StatusOK)
	c.Stop()
	k.connect(t, "a.wild.test:443").is(t, "just out of touch", http.StatusOK)
	if !k.ready() {
		t.Error("not ready before maxStale is over")
	}
	eventually(t, "not ready", func() bool { return !k.ready() })
	if got := k.connect(t, "a.wild.test:443"); got.status != http.StatusServiceUnavailable || got.code != "kill_switch_stale" {
		t.Errorf("out of touch for maxStale: %d %s", got.status, got.code)
	}
	if got := k.connect(t, "b.wild.test:443"); got.code != "revoked" {
		t.Errorf("what was revoked: %d %s", got.status, got.code)
	}
	if age := k.metric(t, "toolgate_kill_switch_source_age_seconds", `source="nats"`); age < 3 {
		t.Errorf("the age is %d s", age)
	}
	c.Run()
	eventually(t, "ready again", k.ready)
	k.connect(t, "a.wild.test:443").is(t, "in touch again", http.StatusOK)
}

func olderLog(t *testing.T, w *world) {
	c := w.central(t)
	k := w.lab.world(t, governed(c, "2s"), risky)
	var six *ledger.Entry
	for i := range 6 {
		six = c.Revoke(fmt.Sprint("v", i+1), ledger.Selector{Host: []string{fmt.Sprintf("v%d.wild.test", i+1)}})
	}
	seven := c.Revoke("v7", ledger.Selector{Host: []string{"v7.wild.test"}})
	eventually(t, "7 in force", func() bool { return k.connect(t, "v7.wild.test:443").code == "revoked" })
	c.Publish(bus.SubjectLive, six.Encode())
	eventually(t, "6 is refused", func() bool { return k.metric(t, "toolgate_kill_switch_refused_total", "behind") == 1 })

	c.Rewind(six)
	eventually(t, "the log that ends at 6 is refused", func() bool { return k.metric(t, "toolgate_kill_switch_refused_total", "rollback") >= 1 })
	c.Silent.Store(true)
	other := *seven // what the backup would go on with
	other.Op, other.ID, other.Selector, other.Signature = ledger.Restore, "v1", nil, ledger.Signature{}
	if err := c.Signer.Sign(&other); err != nil {
		t.Fatal(err)
	}
	c.Publish(bus.SubjectLive, other.Encode())
	eventually(t, "another 7 is refused", func() bool { return k.metric(t, "toolgate_kill_switch_refused_total", "fork") == 1 })
	eventually(t, "not in touch", func() bool {
		_, page := k.adminGet("/readyz")
		return strings.Contains(page, "log was refused: fork")
	})
	for _, host := range []string{"v1.wild.test:443", "v7.wild.test:443"} {
		if got := k.connect(t, host); got.code != "revoked" {
			t.Errorf("%s: %d %s", host, got.status, got.code)
		}
	}
	for _, kind := range []string{"behind", "rollback", "fork"} {
		if n := strings.Count(k.stderr.String(), `"kind":"`+kind+`"`); n != 1 {
			t.Errorf("%s was logged %d times", kind, n)
		}
	}
}

func noRemoteControl(t *testing.T, w *world) {
	c := w.central(t)
	k := w.lab.world(t, governed(c, "60s"))
	c.Revoke("kil-10", ledger.Selector{Host: []string{"b.wild.test"}})
	eventually(t, "in force", func() bool { return k.connect(t, "b.wild.test:443").code == "revoked" })
	k.saved(t, c, "kil-10")
	files := snapshot(t, k.dir)
	for _, address := range []string{k.admin, k.t1} {
		for _, path := range []string{"/admin/kill", "/admin/unkill", "/kill", "/config", "/config/", "/load", "/quit", "/quitquitquit", "/shutdown", "/debug/pprof/", "/metrics", "/readyz"} {
			for _, header := range []string{"", "Content-Type: text/plain\r\n", "Content-Type: application/json\r\nOrigin: http://evil.test\r\n", "Origin: null\r\n", "X-Forwarded-For: 127.0.0.1\r\n"} {
				for _, method := range []string{"POST", "PUT", "DELETE"} {
					a := dialProxy(t, address)
					a.send(t, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"Content-Length: 12\r\nConnection: close\r\n\r\n{\"all\":true}")
					a.read(t, method).is(t, address+" "+method+" "+path, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
						http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired)
					_ = a.Close()
				}
			}
		}
	}
	if got := k.connect(t, "b.wild.test:443"); got.code != "revoked" {
		t.Errorf("what was revoked: %d %s", got.status, got.code)
	}
	k.connect(t, "a.wild.test:443").is(t, "what was not", http.StatusOK)
	if got := snapshot(t, k.dir); got != files {
		t.Errorf("files have changed:\n%s\nbefore:\n%s", got, files)
	}
}

// snapshot lists names, sizes and contents of the sidecar's files.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %q\n", path, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func exchangeInFlight(t *testing.T, w *world) {
	c := w.central(t)
	var asked atomic.Int64
	arrived, release := make(chan struct{}, 16), make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		arrived <- struct{}{}
		<-release
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"access_token":"EXCHANGED-%d","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":300}`, n)
	}))
	t.Cleanup(endpoint.Close)
	u, err := url.Parse(endpoint.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.wire.own = append(w.wire.own, netip.MustParseAddrPort(u.Host))
	k := w.lab.world(t, governed(c, "60s"), func(s *settings) {
		s.bindings = fmt.Sprintf("    - {name: x, tools: [t1], targets: [\"x.wild.test:443\"], tokenExchange: {mode: impersonation, tokenURL: %q, audience: x, clientAuth: {method: none}}}\n", endpoint.URL)
		s.manifest += "requiredScopes: []\n"
	})
	done := make(chan int, 1)
	go func() {
		res, err := k.client(t, k.t1, k.tokenA, false).Get("https://x.wild.test/")
		if err != nil {
			done <- 0
			return
		}
		_ = res.Body.Close()
		done <- res.StatusCode
	}()
	<-arrived
	c.Revoke("kil-13", ledger.Selector{Task: []string{"k1"}})
	select {
	case status := <-done:
		if status != http.StatusForbidden && status != 0 {
			t.Errorf("the call that was waiting for its token: %d", status)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call waits on")
	}
	close(release)
	w.none(t)
	c.Restore("kil-13")
	eventually(t, "restored", func() bool {
		res, err := k.client(t, k.t1, k.tokenA, false).Get("https://x.wild.test/")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	for _, a := range w.up.arrivals() {
		if got := a.header.Get("Authorization"); got == "Bearer EXCHANGED-1" || got == "" {
			t.Errorf("the upstream got %q", got)
		}
	}
}
