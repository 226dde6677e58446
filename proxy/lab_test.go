package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/redact"
)

// lab is a proxy with real surroundings on loopback: an issuer, a name server, TLS and plain upstreams, config files.
//
// Tool t1 may reach, of the test names (all at 127.0.0.1): bound.ok.test (credential, intercepted), ruled.ok.test
// (method and path rules, intercepted), pass.ok.test (relayed) on the TLS port, and plain.ok.test on the plain port.
type lab struct {
	t          testing.TB
	dir        string
	issuer     *devissuer.Issuer
	names      *nameServer
	tls        *httptest.Server // h1 and h2, for every *.ok.test
	plain      *httptest.Server
	mux        *http.ServeMux // of both
	ca         *CA            // the proxy's
	upstreamCA *CA
	roots      *x509.CertPool // of the upstream
	kill       *killswitch.Switch
	proxy      *Proxy
	metrics    *Metrics
	addr       string
	admin      *httptest.Server
	records    *recordSink
	log        *lockedBuffer
	token      string
}

// labOption changes the lab's config text before it is read.
type labOption func(*labFiles)

type labFiles struct {
	config, manifest string
}

// replaced substitutes in the config; it fails the test when there is nothing to substitute.
func replaced(t *testing.T, old, new string) labOption {
	return func(f *labFiles) {
		if !strings.Contains(f.config, old) && !strings.Contains(f.manifest, old) {
			t.Fatalf("the lab's files have no %q", old)
		}
		f.config, f.manifest = strings.ReplaceAll(f.config, old, new), strings.ReplaceAll(f.manifest, old, new)
	}
}

func newLab(t testing.TB, options ...labOption) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), mux: http.NewServeMux(), records: newRecordSink(), log: new(lockedBuffer)}
	l.startIssuer()
	l.names = startNameServer(t)
	l.startUpstreams()
	f := l.files()
	for _, o := range options {
		o(&f)
	}
	l.write("sidecar.yaml", f.config)
	l.write("manifests/t1.yaml", f.manifest)
	l.startProxy()
	return l
}

func (l *lab) startIssuer() {
	issuer, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(stop)
	l.issuer = issuer
	issuer.RegisterClient(devissuer.Client{ID: "toolgate", Secret: "client-secret-value", Scopes: []string{"read", "write"}, Audiences: []string{"https://bound.ok.test"}})
	l.token = l.mint(nil)
	l.write("workload.jwt", l.must(issuer.Mint(map[string]any{"sub": "workload", "aud": "toolgate"})))
	l.write("secret", "client-secret-value")
	l.write("listener.jwt", l.token)
}

// mint returns a task token; extra claims replace the usual ones, nil removes one.
func (l *lab) mint(extra map[string]any) string {
	claims := map[string]any{"sub": "user:alice", "aud": "toolgate", "tenant": "acme", "agent_id": "agent-1", "task_id": "task-1", "run_id": "run-1", "scope": "read"}
	for k, v := range extra {
		claims[k] = v
	}
	return l.must(l.issuer.Mint(claims))
}

func (l *lab) must(s string, err error) string {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *lab) startUpstreams() {
	ca, err := NewCA()
	if err != nil {
		l.t.Fatal(err)
	}
	leaf, err := ca.Leaf("*.ok.test")
	if err != nil {
		l.t.Fatal(err)
	}
	l.upstreamCA = ca
	l.roots = x509.NewCertPool()
	l.roots.AddCert(ca.cert)
	l.write("upstream-ca.crt", string(ca.PEM()))
	l.tls = httptest.NewUnstartedServer(l.mux)
	l.tls.EnableHTTP2 = true
	l.tls.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}, ClientAuth: tls.RequestClientCert}
	l.tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	l.tls.StartTLS()
	l.plain = httptest.NewServer(l.mux)
	l.t.Cleanup(func() { // last in, first out: the proxy has gone by then
		l.tls.CloseClientConnections()
		l.tls.Close()
		l.plain.CloseClientConnections()
		l.plain.Close()
	})
}

func port(s *httptest.Server) string {
	_, p, _ := net.SplitHostPort(s.Listener.Addr().String())
	return p
}

func (l *lab) files() labFiles {
	tlsPort, plainPort := port(l.tls), port(l.plain)
	return labFiles{
		config: fmt.Sprintf(`apiVersion: toolgate/v1
kind: Sidecar
mode: enforce
listeners:
  - {name: tool, address: "127.0.0.1:0", tool: t1}
manifests: ["manifests/*.yaml"]
identity:
  required: true
  issuers: [{issuer: "%[1]s", audiences: [toolgate]}]
  workloadTokenFile: workload.jwt
broker:
  bindings:
    - name: bound
      tools: [t1]
      targets: ["bound.ok.test:%[2]s"]
      tokenExchange:
        tokenURL: "%[1]s/token"
        audience: https://bound.ok.test
        scopes: [read]
        clientAuth: {method: client_secret_basic, clientID: toolgate, secretFile: secret}
egress:
  resolver: "%[4]s"
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [%[2]s, %[3]s], tools: [t1]}]
  upstreamCAFile: upstream-ca.crt
denials: {inTunnel: false}
log: {level: debug, payloads: true}
limits: {maxTunnels: 64, maxHeaderBytes: 32768, headerTimeout: 2s, dialTimeout: 3s, idleTimeout: 30s, drain: 2s}
`, l.issuer.URL(), tlsPort, plainPort, l.names.addr),
		manifest: fmt.Sprintf(`name: t1
owner: tests
version: "1"
description: The tool of the tests.
risk: high
capabilityClasses: [read_private]
requiredScopes: [read]
sideEffects: none
timeoutMs: 30000
egress:
  allowedDomains: ["bound.ok.test:%[1]s", "ruled.ok.test:%[1]s", "pass.ok.test:%[1]s", "*.wild.ok.test:%[1]s", "plain.ok.test:%[2]s", "private.ok.test:%[1]s", "absent.ok.test:%[1]s"]
  allowPrivateNetwork: true
  rules:
    - {host: "ruled.ok.test:%[1]s", methods: [GET, POST], paths: ["/ok/*", "/ok"]}
observability:
  redactFields: [customer_email]
`, tlsPort, plainPort),
	}
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) load() *Gates {
	l.t.Helper()
	s, err := config.Load(filepath.Join(l.dir, "sidecar.yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	g, err := NewGates(s, nil, func(e broker.Event) {
		if l.metrics != nil {
			l.metrics.Broker(e)
		}
	}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return g
}

func (l *lab) startProxy() {
	g := l.load()
	ca, err := NewCA()
	if err != nil {
		l.t.Fatal(err)
	}
	l.ca = ca
	l.kill = killswitch.New(0, "test")
	l.metrics = NewMetrics(g.snapshot, "test")
	records := audit.New(l.records, audit.Options{Chain: true, Observe: l.metrics.Record})
	log := slog.New(redact.Handler(slog.NewJSONHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.proxy = New(Options{Gates: g, Kill: l.kill, Audit: records, Log: log, Metrics: l.metrics, CA: ca})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- l.proxy.Serve(ln, "tool") }()
	l.admin = httptest.NewServer(l.proxy.Admin())
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l.proxy.Shutdown(ctx)
		if err := <-served; err != nil {
			l.t.Errorf("Serve: %v", err)
		}
		l.admin.Close()
		if err := records.Close(5 * time.Second); err != nil {
			l.t.Errorf("records: %v", err)
		}
	})
}

// url returns an address of the TLS or plain upstream under one of its names.
func (l *lab) url(scheme, host, path string) string {
	p := port(l.tls)
	if scheme == "http" {
		p = port(l.plain)
	}
	return scheme + "://" + host + ":" + p + path
}

// target returns host:port of the TLS upstream.
func (l *lab) target(host string) string { return host + ":" + port(l.tls) }

// client is a stock client that uses the proxy, trusts its CA and the upstream's, and gives the token as the password.
func (l *lab) client(token string, h2 bool) *http.Client {
	p := &url.URL{Scheme: "http", Host: l.addr}
	if token != "" {
		p.User = url.UserPassword("tool", token)
	}
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	tr := &http.Transport{Proxy: http.ProxyURL(p), TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2, DisableCompression: true}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dial opens a connection to the proxy, for tests that speak by hand. Reads and writes end after some seconds.
func (l *lab) dial() net.Conn {
	l.t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// revoke puts revocations in force.
func (l *lab) revoke(selectors ...killswitch.Selector) {
	l.t.Helper()
	var set []killswitch.Revocation
	for i, s := range selectors {
		set = append(set, killswitch.Revocation{ID: "r" + strconv.Itoa(i), Selector: s, Reason: "test", By: "tester", At: time.Now()})
	}
	if _, err := l.kill.Apply("test", set); err != nil {
		l.t.Fatal(err)
	}
}

// record is a record as it was written.
type record map[string]any

func (r record) str(key string) string { s, _ := r[key].(string); return s }

// recordSink collects the records as lines and lets tests wait for them.
type recordSink struct {
	mu    sync.Mutex
	all   []record
	raw   bytes.Buffer
	taken int
	more  chan struct{}
}

func newRecordSink() *recordSink { return &recordSink{more: make(chan struct{}, 1024)} }

func (s *recordSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(p)
	for line := range bytes.Lines(p) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return 0, err
		}
		s.all = append(s.all, r)
		s.more <- struct{}{}
	}
	return len(p), nil
}

// next returns the next record that was not yet taken.
func (l *lab) next() record {
	l.t.Helper()
	select {
	case <-l.records.more:
	case <-time.After(10 * time.Second):
		l.t.Fatal("no record came")
	}
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	l.records.taken++
	return l.records.all[l.records.taken-1]
}

// noMore fails if another record has been written.
func (l *lab) noMore() {
	l.t.Helper()
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	if n := len(l.records.all) - l.records.taken; n != 0 {
		l.t.Fatalf("%d more records than expected: %v", n, l.records.all[l.records.taken:])
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// printed returns everything that the proxy wrote.
func (l *lab) printed() string {
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	return l.records.raw.String() + l.log.String()
}

// get makes a request and returns status, body and error.
func get(c *http.Client, target string) (int, string, error) {
	res, err := c.Get(target)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// problemOf decodes the body of a refusal.
func problemOf(t testing.TB, body string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("not a problem: %q: %v", body, err)
	}
	return p
}
