package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/identity"
)

// reloadCase is a change of the policy while a request runs; %TLS and %PLAIN stand for the upstreams' ports.
type reloadCase struct {
	scheme, host, path string
	old, new           string // in the manifest or the config
	code               string // "": the request goes on
}

var reloadCases = map[string]reloadCase{
	"plain, host gone":                  {"http", "plain.ok.test", "/stream", `"plain.ok.test:`, `"other.ok.test:`, "domain_not_allowed"},
	"plain, another host gone":          {"http", "plain.ok.test", "/stream", `"pass.ok.test:`, `"other.ok.test:`, ""},
	"plain, a credential is due":        {"http", "plain.ok.test", "/stream", `targets: ["bound`, `targets: ["plain.ok.test:%PLAIN", "bound`, "credential_denied"},
	"plain, address out of bounds":      {"http", "plain.ok.test", "/stream", `%PLAIN], tools`, `1], tools`, "private_network"},
	"plain, scope required":             {"http", "plain.ok.test", "/stream", `requiredScopes: [read]`, `requiredScopes: [write]`, "insufficient_scope"},
	"plain, trace field required":       {"http", "plain.ok.test", "/stream", `observability:`, "observability:\n  requiredTraceFields: [trace_id]", "trace_field_missing"},
	"plain, audience only":              {"http", "plain.ok.test", "/stream", `audiences: [toolgate]`, `audiences: [toolgate, other]`, ""},
	"intercepted, path gone":            {"https", "ruled.ok.test", "/ok/stream", "/ok/*", "/other/*", "path_not_allowed"},
	"intercepted, another path gone":    {"https", "ruled.ok.test", "/ok/stream", `"/ok"]`, `"/other"]`, ""},
	"intercepted, path gone, reporting": {"https", "ruled.ok.test", "/ok/stream", "/ok/*", "/other/*\"]}]\nmode: report", ""},
	"intercepted, address out of bound": {"https", "bound.ok.test", "/stream", `ports: [%TLS, `, `ports: [1, `, "private_network"},
}

func (l *lab) reloadWith(old, new string) {
	l.t.Helper()
	f := l.files()
	fill := strings.NewReplacer("%TLS", port(l.tls), "%PLAIN", port(l.plain))
	if config, report := strings.CutSuffix(new, "\"]}]\nmode: report"); report {
		new, f.config = config, strings.Replace(f.config, "mode: enforce", "mode: report", 1)
	}
	old, new = fill.Replace(old), fill.Replace(new)
	if !strings.Contains(f.manifest+f.config, old) {
		l.t.Fatalf("the files have no %q", old)
	}
	l.write("manifests/t1.yaml", strings.ReplaceAll(f.manifest, old, new))
	l.write("sidecar.yaml", strings.ReplaceAll(f.config, old, new))
	l.proxy.Reload(l.load())
}

// TestReloadEndsRunningRequests that the new policy does not allow, and no others: an answer that has begun is cut, and a request
// that has none is told why.
func TestReloadEndsRunningRequests(t *testing.T) {
	for name, c := range reloadCases {
		for _, h2 := range []bool{false, true} {
			if h2 && c.scheme == "http" {
				continue
			}
			t.Run(fmt.Sprintf("%s, h2=%v", name, h2), func(t *testing.T) { reloadWhileAnswered(t, c, h2) })
			t.Run(fmt.Sprintf("%s, h2=%v, not answered", name, h2), func(t *testing.T) { reloadWhileAsked(t, c, h2) })
		}
	}
}

func reloadWhileAnswered(t *testing.T, c reloadCase, h2 bool) {
	l := newLab(t)
	release := make(chan struct{})
	l.mux.HandleFunc(c.path, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	before := l.proxy.gates.Load().snapshot.Revision
	res, err := l.client(l.token, h2).Get(l.url(c.scheme, c.host, c.path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); err != nil || line != "one\n" {
		t.Fatalf("%q %v", line, err)
	}
	l.reloadWith(c.old, c.new)
	class := "policy_changed"
	if c.code == "" {
		class = ""
		close(release)
	}
	if _, err := io.ReadAll(body); (err != nil) != (c.code != "") {
		t.Errorf("the answer ended with %v", err)
	}
	rec := l.next()
	if rec.str("code") != c.code || rec.str("error_class") != class || rec.str("decision") != "allow" || rec.str("policy_revision") != before {
		t.Errorf("record %v", rec)
	}
}

func reloadWhileAsked(t *testing.T, c reloadCase, h2 bool) {
	l := newLab(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	l.mux.HandleFunc(c.path, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	type answer struct {
		res *http.Response
		err error
	}
	answers := make(chan answer, 1)
	client := l.client(l.token, h2)
	go func() {
		res, err := client.Get(l.url(c.scheme, c.host, c.path))
		answers <- answer{res, err}
	}()
	<-arrived
	revision := l.proxy.gates.Load().snapshot.Revision
	l.reloadWith(c.old, c.new)
	if c.code == "" {
		close(release)
	}
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	_ = a.res.Body.Close()
	if got := a.res.Header.Get("Toolgate-Denial"); got != c.code || c.code == "" && a.res.StatusCode != 200 {
		t.Errorf("status %d, code %q", a.res.StatusCode, got)
	}
	rec := l.next()
	if rec.str("code") != c.code || rec.str("decision") != "allow" || rec.str("policy_revision") != revision { // the upstream has it
		t.Errorf("record %v", rec)
	}
}

// TestReloadRacesWithARequest: a request that was decided under gates which are replaced before it is registered, or while it is
// being connected, is judged anew.
func TestReloadRacesWithARequest(t *testing.T) {
	l := newLab(t)
	c := l.proxy.begin("tool", "request")
	c.caller, c.asked, c.tool = &identity.Caller{Issuer: l.issuer.URL()}, &ask{}, c.gates.snapshot.Tools["t1"]
	c.target.Scheme, c.target.Host, c.target.Port, c.target.Method, c.target.Path = "http", "plain.ok.test", 80, "GET", "/"
	defer l.proxy.leave(c)
	conn := l.dial() // to 127.0.0.1
	var cause error
	cancel := context.CancelCauseFunc(func(err error) { cause = err })
	c.target.Port = uint16(l.plain.Listener.Addr().(*net.TCPAddr).Port)
	if e := l.proxy.enter(c, cancel); e != nil {
		t.Fatal(e)
	}
	if c.reached(conn, cancel); cause != nil {
		t.Fatal(cause)
	}
	l.proxy.leave(c)
	l.reloadWith(`%PLAIN], tools`, `1], tools`)
	if e := l.proxy.enter(c, cancel); e == nil || e.Code != PrivateNetwork {
		t.Errorf("entered: %v", e)
	}
	cause = nil
	if c.reached(conn, cancel); cause == nil {
		t.Error("the connection that the new policy does not allow is used")
	}
}

// TestEveryDecisionFitsItsRevision reloads a hundred times while tunnels, plain and intercepted requests run. Each decision must be
// the one that the policy named in its answer and record takes.
func TestEveryDecisionFitsItsRevision(t *testing.T) {
	l := newLab(t, replaced(t, "level: debug, payloads: true", "level: error"))
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	open := l.load()
	f := l.files()
	l.write("manifests/t1.yaml", strings.NewReplacer("/ok/*", "/other/*", `"pass.ok.test:`, `"p.ok.test:`, `"plain.ok.test:`, `"q.ok.test:`).Replace(f.manifest))
	shut := l.load()
	w := &reloadWatcher{lab: l, open: open.snapshot.Revision, shut: shut.snapshot.Revision, stop: make(chan struct{})}
	seen := make(chan struct{})
	go func() { // the records are looked at in the end
		defer close(seen)
		for {
			select {
			case <-l.records.more:
			case <-w.stop:
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for _, target := range []string{l.url("https", "pass.ok.test", "/"), l.url("http", "plain.ok.test", "/"), l.url("https", "ruled.ok.test", "/ok/1")} {
		for range 2 {
			wg.Go(func() { w.call(target) })
		}
	}
	for range 50 {
		for _, g := range []*Gates{shut, open} {
			l.proxy.Reload(g)
			n := w.decisions.Load()
			waitUntil(t, func() bool { return w.decisions.Load() >= n+8 || t.Failed() })
		}
	}
	close(w.stop)
	wg.Wait()
	<-seen
	w.judge(t)
}

type reloadWatcher struct {
	lab        *lab
	open, shut string // revisions
	stop       chan struct{}
	decisions  atomic.Int64
}

// call asks for a target again and again, over a connection of its own each time that the last one was ended.
func (w *reloadWatcher) call(target string) {
	client := w.lab.client(w.lab.token, false)
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			client.CloseIdleConnections()
			return
		default:
		}
		if n%4 == 0 {
			client.CloseIdleConnections()
		}
		res, err := client.Get(target)
		w.decisions.Add(1)
		if err != nil { // a refused or cut tunnel, which the record tells of
			continue
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.Header.Get("Toolgate-Denial") == "" {
			continue
		}
		if p := problemOf(w.lab.t, string(body)); p.PolicyRevision != w.shut {
			w.lab.t.Errorf("%s: denied with %s by policy %s, which allows it", target, p.Code, p.PolicyRevision)
		}
	}
}

func (w *reloadWatcher) judge(t *testing.T) {
	count := map[string]int{}
	w.lab.records.mu.Lock()
	defer w.lab.records.mu.Unlock()
	for _, r := range w.lab.records.all {
		count[r.str("host")+" "+r.str("kind")+" "+r.str("decision")]++
		allows := r.str("policy_revision") == w.open || r.str("host") == "ruled.ok.test" && r.str("kind") == "tunnel"
		if allows != (r.str("decision") == "allow") {
			t.Errorf("a decision that its policy does not take: %v", r)
		}
	}
	for _, kind := range []string{"pass.ok.test tunnel", "plain.ok.test request", "ruled.ok.test request"} {
		if count[kind+" allow"] == 0 || count[kind+" deny"] == 0 {
			t.Errorf("%s: %v", kind, count)
		}
	}
	t.Log(count)
}
