package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDrain: what runs may end, what idles or outlasts the limit is cut, everything is recorded.
func TestDrain(t *testing.T) {
	l := newLab(t)
	l.stream()
	release, arrived := make(chan struct{}), make(chan struct{})
	l.mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	kept := l.client(l.token, true)
	if status, _, err := get(kept, l.url("https", "bound.ok.test", "/")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	l.next()
	type answer struct {
		body string
		err  error
	}
	slow := make(chan answer, 1)
	go func() {
		_, body, err := get(kept, l.url("https", "bound.ok.test", "/slow"))
		slow <- answer{body, err}
	}()
	<-arrived
	idle := l.connectTo(l.target("pass.ok.test"), "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() { l.proxy.Shutdown(ctx); close(ended) }()
	waitUntil(t, func() bool { _, err := net.Dial("tcp", l.addr); return err != nil })
	if status, body, _ := get(http.DefaultClient, l.admin.URL+"/readyz"); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("readyz: %d %q", status, body)
	}
	close(release)
	if a := <-slow; a.err != nil || a.body != "done" {
		t.Errorf("the running call: %q %v", a.body, a.err)
	}
	cancel() // the limit
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("the idle tunnel went on")
	}
	<-ended
	classes := map[string]int{}
	for range 2 {
		rec := l.next()
		classes[rec.str("kind")+" "+rec.str("error_class")]++
	}
	if classes["request "] != 1 || classes["tunnel drained"] != 1 {
		t.Errorf("records %v", classes)
	}
	l.noMore()
	l.proxy.tunnels = newRegistry(l.load().snapshot.Limits) // the lab shuts down once more
	l.proxy.inner.server = &http.Server{}
}

// waitUntil polls a condition that has no event to wait for.
func waitUntil(t testing.TB, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true")
		}
		<-tick.C
	}
}

func TestSilentAndSlowClientsAreLetGo(t *testing.T) {
	l := newLab(t)
	conns := map[string]net.Conn{}
	for name, begin := range map[string]func(net.Conn){
		"silent":         func(net.Conn) {},
		"slow header":    func(c net.Conn) { _, _ = io.WriteString(c, "GET http://plain.ok.test/ HTTP/1.1\r\nX: ") },
		"silent tunnel":  func(c net.Conn) { l.connectOn(c, l.target("bound.ok.test")) },
		"half handshake": func(c net.Conn) { l.connectOn(c, l.target("bound.ok.test")); _, _ = c.Write([]byte{0x16, 3, 1}) },
		"slow inside": func(c net.Conn) {
			l.connectOn(c, l.target("bound.ok.test"))
			tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			if err := tc.Handshake(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(tc, "GET / HTTP/1.1\r\nX: ")
		},
	} {
		conns[name] = l.dial()
		begin(conns[name])
	}
	for name, c := range conns {
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the proxy kept the connection", name)
		}
	}
	waitUntil(t, func() bool { return len(l.proxy.tunnels.byTool()) == 0 })
}

// connectOn opens a tunnel on a connection and reads its answer byte by byte, so that nothing is taken from what follows.
func (l *lab) connectOn(c net.Conn, target string) {
	l.t.Helper()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: %s\r\n\r\n", target, l.basic(l.token))
	got := make([]byte, len(established))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != established {
		l.t.Fatalf("%q %v", got, err)
	}
}

func TestOversizedHeaders(t *testing.T) {
	l := newLab(t)
	var got seen
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { got.add(r) })
	big := strings.Repeat("x", 200<<10)
	for _, target := range []string{l.url("http", "plain.ok.test", "/"), l.url("https", "bound.ok.test", "/")} {
		req, _ := http.NewRequest("GET", target, nil)
		req.Header.Set("X-Big", big)
		res, err := l.client(l.token, false).Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode != 431 {
				t.Errorf("%s: status %d", target, res.StatusCode)
			}
		}
	}
	if got.count() != 0 {
		t.Error("a request with an oversized header reached the upstream")
	}
	if status, _, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/")); err != nil || status != 200 {
		t.Errorf("afterwards: %d %v", status, err)
	}
}

// TestEnvironmentNamesNoProxy: a proxy variable in the sidecar's own environment must not lead its traffic elsewhere.
func TestEnvironmentNamesNoProxy(t *testing.T) {
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	touched := make(chan struct{}, 8)
	go func() {
		for {
			c, err := canary.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			_ = c.Close()
		}
	}()
	defer func() { _ = canary.Close() }()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://"+canary.Addr().String())
	}
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	for _, target := range []string{l.url("http", "plain.ok.test", "/"), l.url("https", "pass.ok.test", "/"), l.url("https", "bound.ok.test", "/")} {
		if status, _, err := get(l.client(l.token, false), target); err != nil || status != 200 {
			t.Errorf("%s: %d %v", target, status, err)
		}
	}
	select {
	case <-touched:
		t.Error("the proxy of the environment was used")
	default:
	}
}

// TestIdentityOfAKeptConnection: each request is judged by its own token.
func TestIdentityOfAKeptConnection(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	c := l.dial()
	r := bufio.NewReader(c)
	bob := l.mint(map[string]any{"sub": "user:bob"})
	for _, step := range []struct {
		token, subject string
		status         int
	}{{l.token, "user:alice", 200}, {"", "", 407}, {bob, "user:bob", 200}} {
		auth := ""
		if step.token != "" {
			auth = "Proxy-Authorization: " + l.basic(step.token) + "\r\n"
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", l.url("http", "plain.ok.test", "/"), auth)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != step.status {
			t.Errorf("status %d, expected %d", res.StatusCode, step.status)
		}
		if rec := l.next(); rec.str("subject") != step.subject {
			t.Errorf("record %v", rec)
		}
	}
}

// TestTokenExpiresInsideATunnel: a tunnel that outlives its token carries no further request.
func TestTokenExpiresInsideATunnel(t *testing.T) {
	t.Parallel()
	l := newLab(t, replaced(t, "audiences: [toolgate]", "audiences: [toolgate], leeway: 1s"))
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	exp := time.Now().Add(5 * time.Second)
	client := l.client(l.mint(map[string]any{"exp": exp.Unix()}), false)
	if status, body, err := get(client, l.url("https", "ruled.ok.test", "/ok")); err != nil || status != 200 {
		t.Fatalf("%d %q %v", status, body, err)
	}
	timer := time.NewTimer(time.Until(exp) + 2100*time.Millisecond)
	<-timer.C
	if status, body, err := get(client, l.url("https", "ruled.ok.test", "/ok")); err != nil || status != 407 {
		t.Errorf("%d %q %v", status, body, err)
	}
}

func TestTokenInTheURLIsNone(t *testing.T) {
	l := newLab(t)
	status, _, err := get(l.client("", false), l.url("http", "plain.ok.test", "/?access_token="+l.token))
	if err != nil || status != 407 {
		t.Errorf("%d %v", status, err)
	}
	l.next()
	if strings.Contains(l.printed(), l.token) {
		t.Error("the token was printed")
	}
}

func TestMetricsAgreeWithRecords(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, false)
	for _, target := range []string{l.url("http", "plain.ok.test", "/"), "http://evil.ok.test/", l.url("https", "bound.ok.test", "/")} {
		if _, _, err := get(client, target); err != nil {
			t.Fatal(err)
		}
		l.next()
	}
	if _, _, err := get(l.client("", false), "http://evil.ok.test/"); err != nil {
		t.Fatal(err)
	}
	l.next()
	_, body, err := get(http.DefaultClient, l.admin.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`toolgate_calls_total{code="ok",decision="allow",tool="t1"} 2`,
		`toolgate_calls_total{code="domain_not_allowed",decision="deny",tool="t1"} 1`,
		`toolgate_calls_total{code="unauthenticated",decision="deny",tool="other"} 1`,
		`toolgate_tunnels_open{tool="t1"} 1`,
		`toolgate_audit_records_total{result="written"} 4`,
		`toolgate_config_revision_info{revision="` + l.proxy.gates.Load().snapshot.Revision + `"} 1`,
		`toolgate_call_duration_seconds_count{tool="t1"} 3`,
		`toolgate_kill_switch_active 0`,
		`toolgate_build_info{`,
		`toolgate_calls_running 1`, // the tunnel that the client keeps
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if testing.Verbose() && t.Failed() {
		t.Log(body)
	}
}

// TestServeAfterShutdown: a listener that comes too late is closed and not served for ever.
func TestServeAfterShutdown(t *testing.T) {
	for _, kind := range []string{"explicit", "transparent", "dns"} {
		l := newLab(t, replaced(t, "{name: tool, address", "{name: tool, kind: explicit, address"), func(f *labFiles) {
			f.config = strings.Replace(f.config, "manifests:", `  - {name: late, kind: `+kind+`, address: "127.0.0.1:0", tool: t1}`+"\nmanifests:", 1)
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.proxy.draining.Store(true)
		served := make(chan error, 1)
		go func() { served <- l.proxy.Serve(ln, "late") }()
		select {
		case err := <-served:
			if _, dialed := net.Dial("tcp", ln.Addr().String()); err != nil || dialed == nil {
				t.Errorf("%s: %v, and the port is open: %v", kind, err, dialed == nil)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s is served", kind)
		}
	}
}
