//go:build linux

package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const secretA, secretB = "SECRET-A-9f1c64d0b7", "SECRET-B-51e8a20c3d"

// settings are the parts of the sidecar's files that cases change.
type settings struct {
	domains     []string // of t1's manifest
	manifest    string   // more lines of it
	egress      string   // more lines of egress
	intercept   string
	limits      string
	revocations string
	admin       string
	resolver    string
	listeners   string
	fence       string
	issuer      string
	log         string
	kill        string    // killSwitch
	risk        string    // of both tools
	bindings    string    // more of them
	top         string    // more keys of the sidecar's file
	stdout      io.Writer // nil: collected
}

// world is one running sidecar with its files. Tool t1 of tenant A may reach api.ok.test on 443 (with a credential) and 80, and
// *.wild.test on 443; tool t2 of tenant B the same with a credential of its own.
type world struct {
	*lab
	dir             string
	settings        settings
	t1, t2, admin   string // addresses of the listeners
	tokenA, tokenB  string
	stdout, stderr  *lockedBuffer
	cmd             *exec.Cmd
	exited          chan struct{}
	launch          func(*exec.Cmd) error // starts the sidecar
	from            netip.Addr            // where the tests ask the admin port from
	mayEnd          bool                  // the case ends the sidecar itself
	interceptCAFile string
}

// world writes the sidecar's files, changed by the options, and starts it. It ends with the test.
func (l *lab) world(t *testing.T, options ...func(*settings)) *world {
	t.Helper()
	w := l.files(t, options...)
	w.start(t)
	return w
}

// files writes the sidecar's files only.
func (l *lab) files(t *testing.T, options ...func(*settings)) *world {
	t.Helper()
	s := settings{
		domains:     []string{"api.ok.test:443", "api.ok.test:80", "*.wild.test:443"},
		intercept:   "{caOutFile: ca.pem}",
		limits:      "{headerTimeout: 2s, dialTimeout: 5s, idleTimeout: 20s, drain: 1s}",
		revocations: "[]", admin: "127.0.0.1:0", resolver: "127.0.0.1:53", log: "info",
		fence:     "{}",
		listeners: "[{name: t1, address: \"127.0.0.1:0\", tool: t1}, {name: t2, address: \"127.0.0.1:0\", tool: t2}]",
		issuer:    fmt.Sprintf("{issuer: %q, audiences: [toolgate]}", l.issuer.URL()),
		kill:      "{file: revocations.yaml, stateDir: state}", risk: "low",
	}
	for _, o := range options {
		o(&s)
	}
	w := &world{lab: l, dir: t.TempDir(), settings: s, launch: (*exec.Cmd).Start, from: tester}
	w.interceptCAFile = filepath.Join(w.dir, "ca.pem")
	w.tokenA = w.mint(t, map[string]any{"sub": "user:alice", "tenant": "A", "agent_id": "a1", "task_id": "k1", "run_id": "r1"})
	w.tokenB = w.mint(t, map[string]any{"sub": "user:bob", "tenant": "B", "agent_id": "b1", "task_id": "kb", "run_id": "rb"})
	w.write(t, "secret-a", secretA)
	w.write(t, "secret-b", secretB)
	w.write(t, "upstream-ca.pem", l.pki.pem)
	if err := os.Mkdir(filepath.Join(w.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.writeAll(t)
	return w
}

func (w *world) mint(t *testing.T, claims map[string]any) string {
	t.Helper()
	claims["aud"] = "toolgate"
	token, err := w.issuer.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // at once, so that no reader sees half of it
		t.Fatal(err)
	}
}

// writeAll writes the files that settings make.
func (w *world) writeAll(t *testing.T) {
	t.Helper()
	s := w.settings
	manifest := func(name string, domains []string, more string) string {
		quoted, err := json.Marshal(domains)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("name: %s\nowner: tests\nversion: \"1\"\ndescription: A tool of the tests.\nrisk: %s\ncapabilityClasses: [read_private]\n"+
			"sideEffects: none\ntimeoutMs: 15000\negress:\n  allowedDomains: %s\n%s", name, s.risk, quoted, more)
	}
	w.write(t, "t1.yaml", manifest("t1", s.domains, s.manifest))
	w.write(t, "t2.yaml", manifest("t2", []string{"api.ok.test", "*.wild.test:443"}, ""))
	w.write(t, "revocations.yaml", "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: "+s.revocations+"\n")
	w.write(t, "sidecar.yaml", fmt.Sprintf(`apiVersion: toolgate/v1
kind: Sidecar
mode: enforce
listeners: %s
fence: %s
admin: {address: %q}
manifests: ["t*.yaml"]
identity:
  issuers: [%s]
broker:
  bindings:
    - {name: a, tools: [t1], targets: ["api.ok.test:443"], static: {file: secret-a, prefix: "Bearer "}}
    - {name: b, tools: [t2], targets: ["api.ok.test:443"], static: {file: secret-b, prefix: "Bearer "}}
%segress:
  resolver: %q
  upstreamCAFile: upstream-ca.pem
%sintercept: %s
killSwitch: %s
audit: {output: stdout}
log: {level: %s}
limits: %s
%s`, s.listeners, s.fence, s.admin, s.issuer, s.bindings, s.resolver, s.egress, s.intercept, s.kill, s.log, s.limits, s.top))
}

// start runs the sidecar and waits until it is ready.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.startUntil(t, "the sidecar is ready", w.ready)
}

// startUntil runs the sidecar and waits until it listens and cond holds.
func (w *world) startUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	w.stdout, w.stderr, w.exited = new(lockedBuffer), new(lockedBuffer), make(chan struct{})
	w.cmd = w.command("run")
	w.cmd.Stdout, w.cmd.Stderr = w.stdout, w.stderr
	if w.settings.stdout != nil {
		w.cmd.Stdout = w.settings.stdout
	}
	if err := w.launch(w.cmd); err != nil {
		t.Fatal(err)
	}
	cmd, exited := w.cmd, w.exited
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() { w.stop(t) })
	eventually(t, what, func() bool {
		select {
		case <-exited:
			t.Fatalf("the sidecar has exited:\n%s", w.stderr.String())
		default:
		}
		at := w.listening()
		w.t1, w.t2, w.admin = at["t1"], at["t2"], at["admin"]
		return w.t1 != "" && w.t2 != "" && w.admin != "" && cond()
	})
}

func (w *world) command(name string) *exec.Cmd {
	cmd := exec.Command(os.Getenv(insideEnv), name, "--config", filepath.Join(w.dir, "sidecar.yaml"))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector would hold up each exit by a second
	return cmd
}

// listening reads the listeners' addresses from the log.
func (w *world) listening() map[string]string {
	at := map[string]string{}
	for line := range strings.Lines(w.stderr.String()) {
		var entry struct{ Msg, Listener, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			at[entry.Listener] = entry.Address
		} else if _, text, ok := strings.Cut(line, "msg=listening listener="); ok { // log.format: text
			name, address, _ := strings.Cut(strings.TrimSpace(text), " address=")
			at[name] = address
		}
	}
	return at
}

func (w *world) ready() bool {
	status, _ := w.adminGet("/readyz")
	return status == http.StatusOK
}

// adminGet asks the sidecar's admin port.
func (w *world) adminGet(path string) (int, string) {
	tr := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: w.from.AsSlice()}}).DialContext, DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr, Timeout: 5 * time.Second}).Get("http://" + w.adminAddress() + path)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// adminAddress is where the tests reach the admin port: in a pod, by the pod's address.
func (w *world) adminAddress() string {
	if w.from == tester {
		return w.admin
	}
	return net.JoinHostPort(pod4.Addr().String(), podAdmin)
}

// stop ends the sidecar in the way that Kubernetes does. It may be called again.
func (w *world) stop(t *testing.T) {
	t.Helper()
	select {
	case <-w.exited:
		if !w.mayEnd {
			t.Errorf("the sidecar has ended by itself:\n%s", w.stderr.String())
		}
		return
	default:
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.exited:
		w.mayEnd = true
		if code := w.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the sidecar ended with exit code %d:\n%s", code, w.stderr.String())
		}
	case <-time.After(20 * time.Second):
		_ = w.cmd.Process.Kill()
		<-w.exited
		t.Error("the sidecar did not end within 20 s of SIGTERM")
	}
	if t.Failed() {
		t.Logf("the sidecar's log:\n%s\nits records:\n%s", tail(w.stderr.String()), tail(w.stdout.String()))
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// refusedAtLoad fails the test unless the sidecar refuses to start with these files, opens no listener, and says each of the words.
func (w *world) refusedAtLoad(t *testing.T, words ...string) {
	t.Helper()
	for _, command := range []string{"check", "run"} {
		out, err := w.command(command).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit code 1\n%s", command, err, out)
		}
		for _, word := range words {
			if !strings.Contains(string(out), word) {
				t.Errorf("%s does not say %q:\n%s", command, word, out)
			}
		}
		if strings.Contains(string(out), `"listening"`) {
			t.Errorf("%s: a listener was opened:\n%s", command, out)
		}
	}
}

// printed returns everything that the sidecar wrote.
func (w *world) printed() string { return w.stdout.String() + w.stderr.String() }

// record is a line of the audit log.
type record struct {
	Kind       string `json:"kind"`
	Tenant     string `json:"tenant"`
	Task       string `json:"task"`
	Decision   string `json:"decision"`
	Code       string `json:"code"`
	Host       string `json:"host"`
	ErrorClass string `json:"error_class"`
}

func (w *world) records() []record {
	var out []record
	for line := range strings.Lines(w.stdout.String()) {
		var r record
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &r) == nil && (r.Kind == "request" || r.Kind == "tunnel") {
			out = append(out, r)
		}
	}
	return out
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// lockedBuffer collects what a process prints while others read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// metric sums the series of one name whose labels contain a text. It is 0 where there is none.
func (w *world) metric(t *testing.T, name, label string) int {
	t.Helper()
	_, body := w.adminGet("/metrics")
	if body == "" {
		t.Fatal("no metrics")
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		labels, found := strings.CutPrefix(series, name)
		if !found || labels != "" && labels[0] != '{' || !strings.Contains(labels, label) {
			continue
		}
		var f float64
		if _, err := fmt.Sscan(value, &f); err != nil {
			t.Fatal(err)
		}
		sum += f
	}
	return int(sum)
}

func (w *world) goroutines(t *testing.T) int { t.Helper(); return w.metric(t, "go_goroutines", "") }

func (w *world) descriptors(t *testing.T) int {
	t.Helper()
	return w.metric(t, "process_open_fds", "")
}
