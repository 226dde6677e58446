//go:build linux

package cases

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// debugPaths are where other software shows what it is made of.
var debugPaths = []string{"/", "/debug", "/debug/pprof/", "/debug/pprof/heap?debug=2", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/debug/vars", "/debug/requests", "/debug/events",
	"/config", "/config_dump", "/configz", "/config.json", "/env", "/environ", "/flags", "/flagz", "/statusz", "/rpcz", "/threadz", "/varz", "/heap", "/dump", "/logging", "/log", "/clusters", "/certs",
	"/server_info", "/memory", "/quit", "/quitquitquit", "/reload", "/-/reload", "/api/v1/status/config", "/actuator/env", "/actuator/heapdump", "/secrets", "/bindings", "/.git/config",
	"/metrics", "/metrics?debug=1", "/healthz", "/healthz?verbose=1", "/readyz", "/readyz?verbose=1", "/metrics/../config", "//metrics"}

// dumps asks a sidecar that holds secrets of every kind for all that it would show.
func dumps(t *testing.T, w *world) {
	k, secrets := w.secretive(t)
	for host := range map[string]bool{"api.ok.test": true, "q.wild.test": true} {
		res, err := k.client(t, k.t1, k.tokenA, false).Get("https://" + host + "/")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", res, err)
		}
		_ = res.Body.Close()
	}
	var open []string
	for _, path := range debugPaths {
		status, body := k.adminGet(path)
		if status == http.StatusOK {
			open = append(open, path)
		}
		hidden(t, path, body, secrets...)
	}
	if want := []string{"/metrics", "/metrics?debug=1", "/healthz", "/healthz?verbose=1", "/readyz", "/readyz?verbose=1", "/metrics/../config", "//metrics"}; len(open) > len(want) || !slices.Equal(open[:6], want[:6]) {
		t.Errorf("these paths answer: %v", open)
	}
	records := filepath.Join(k.dir, "records")
	k.write(t, "records", k.stdout.String())
	k.write(t, "token", k.tokenA)
	config := filepath.Join(k.dir, "sidecar.yaml")
	sidecar := os.Getenv(insideEnv)
	for _, args := range [][]string{
		{"check", "--config", config}, {"check", "--config", config, "--output", "json"}, {"version"}, {"run", "--help"},
		{"explain", "--config", config, "--tool", "t1", "--url", "https://api.ok.test/", "--token-file", filepath.Join(k.dir, "token"), "--resolve", "--exchange"},
		{"explain", "--config", config, "--tool", "t1", "--url", "https://q.wild.test/?key=quiet-tool-key-stone", "--token-file", filepath.Join(k.dir, "token"), "--exchange", "--output", "json"},
		{"explain", "--config", config, "--tool", "t1", "--url", "https://api.ok.test/", "--token-file", filepath.Join(k.dir, "secret-a")},
		{"audit", "tail", "--lines", "0", records}, {"audit", "export", records}, {"audit", "verify", "--output", "json", records},
	} {
		out, err := exec.Command(sidecar, args...).CombinedOutput()
		if len(out) == 0 {
			t.Errorf("%v prints nothing: %v", args[:2], err)
		}
		hidden(t, strings.Join(args[:min(2, len(args))], " "), string(out), secrets...)
	}
	k.mayEnd = true
	_ = k.cmd.Process.Signal(syscall.SIGQUIT)
	<-k.exited
	says(t, "the log", k.stderr.String(), "goroutine ")
	hidden(t, "what was said until SIGQUIT", k.printed(), secrets...)
	w.withoutAdmin(t)
	w.mistaken(t)
}

// secretive starts a sidecar with secrets of several kinds, and returns them.
func (w *world) secretive(t *testing.T) (*world, []string) {
	t.Helper()
	k := w.lab.files(t, talkative, func(s *settings) {
		s.bindings = "    - {name: q, tools: [t1], targets: [\"q.wild.test:443\"], static: {file: secret-q, query: key}}\n" +
			"    - {name: p, tools: [t1], targets: [\"p.wild.test:443\"], placeholders: [{text: TOOLGATE_BOT_TOKEN, file: secret-p, in: [path, \"header:X-Key\"]}]}\n"
	})
	k.write(t, "secret-q", "quiet/query+secret&stone")
	k.write(t, "secret-p", "quiet-123456:placeholder-stone")
	k.start(t)
	return k, append(parts(k.tokenA), secretA, secretB, "quiet/query+secret&stone", "quiet-123456:placeholder-stone", "quiet-tool-key-stone")
}

// withoutAdmin: no admin port unless the config asks for one.
func (w *world) withoutAdmin(t *testing.T) {
	t.Helper()
	k := w.lab.files(t)
	config := filepath.Join(k.dir, "sidecar.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "sidecar.yaml", strings.Replace(string(text), "admin: {address: \"127.0.0.1:0\"}\n", "", 1))
	k.stderr, k.stdout, k.exited = new(lockedBuffer), new(lockedBuffer), make(chan struct{})
	k.cmd = k.command("run")
	k.cmd.Stderr, k.cmd.Stdout = k.stderr, k.stdout
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = k.cmd.Wait(); close(k.exited) }()
	eventually(t, "the sidecar listens", func() bool { return k.listening()["t2"] != "" })
	k.stop(t)
	if at := k.listening()["admin"]; at != "" {
		t.Errorf("an admin port is open at %s", at)
	}
}

// mistaken: what is wrong in a config is named without the secret that should not have been there.
func (w *world) mistaken(t *testing.T) {
	t.Helper()
	const secret = "quiet-inline-secret-stone"
	for _, change := range []func(*settings){
		func(s *settings) {
			s.issuer = "{issuer: \"https://user:" + secret + "@idp.test\", audiences: [toolgate]}"
		},
		func(s *settings) { s.egress += "  upstreamProxy: \"http://user:" + secret + "@proxy.test:3128\"\n" },
		func(s *settings) { s.top += "tracing: {endpoint: \"https://user:" + secret + "@collector.test\"}\n" },
		func(s *settings) {
			s.bindings = "    - {name: x, tools: [t1], targets: [\"x.wild.test:443\"], tokenExchange: {tokenURL: \"https://u:" + secret + "@idp.test/token\", mode: impersonation, audience: x, clientAuth: {method: none}}}\n"
		},
	} {
		k := w.lab.files(t, change)
		for _, name := range []string{"check", "run"} {
			out, err := k.command(name).CombinedOutput()
			if err == nil {
				t.Errorf("%s takes it: %s", name, out)
			}
			hidden(t, name, string(out), secret)
		}
	}
}

// secretsInURLs puts credentials where URLs are written.
func secretsInURLs(t *testing.T, w *world) {
	spans, traced := w.collected(t)
	const inQuery, inPath = "quiet/query+secret&stone", "quiet-123456:placeholder-stone"
	k := w.lab.files(t, talkative, traced, allowing("*.wild.test:81", "*.wild.test:444"), limits("{headerTimeout: 2s, dialTimeout: 1s, idleTimeout: 20s, drain: 1s}"), func(s *settings) {
		s.bindings = "    - {name: q, tools: [t1], targets: [\"q.wild.test:443\", \"q.wild.test:444\"], static: {file: secret-q, query: key}}\n" +
			"    - {name: p, tools: [t1], targets: [\"p.wild.test:443\", \"p.wild.test:444\"], placeholders: [{text: TOOLGATE_BOT_TOKEN, file: secret-p, in: [path, \"query:key\"]}]}\n"
	})
	k.write(t, "secret-q", inQuery)
	k.write(t, "secret-p", inPath)
	k.start(t)
	var sent atomic.Int64
	for _, host := range []string{"q.wild.test", "p.wild.test"} {
		w.up.handle(host, func(rw http.ResponseWriter, r *http.Request) {
			uri, _ := url.PathUnescape(r.RequestURI)
			if strings.Contains(uri, inQuery) || strings.Contains(uri, inPath) {
				sent.Add(1)
			}
			switch {
			case strings.HasSuffix(r.URL.Path, "/back"):
				rw.Header().Set("Location", "https://"+r.Host+r.RequestURI)
				rw.WriteHeader(http.StatusFound)
			case strings.HasSuffix(r.URL.Path, "/cut"):
				panic(http.ErrAbortHandler)
			case strings.HasSuffix(r.URL.Path, "/late"):
				rw.WriteHeader(http.StatusOK)
				_, _ = io.WriteString(rw, "beginning")
				_ = http.NewResponseController(rw).Flush()
				panic(http.ErrAbortHandler)
			default:
				http.Error(rw, "no "+r.RequestURI, http.StatusNotFound)
			}
		})
	}
	told := ""
	for proto, c := range k.transports(t) {
		for _, to := range []string{"https://q.wild.test/", "https://q.wild.test:444/", "https://p.wild.test/botTOOLGATE_BOT_TOKEN/", "https://p.wild.test:444/botTOOLGATE_BOT_TOKEN/", "https://p.wild.test/TOOLGATE_BOT_TOKEN"} {
			for _, path := range []string{"back", "cut", "late", "none", "a?key=TOOLGATE_BOT_TOKEN", "a?other=TOOLGATE_BOT_TOKEN"} {
				res, err := c.Get(to + path)
				if err != nil {
					t.Fatalf("%s %s: %v", proto, to+path, err)
				}
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				told += fmt.Sprint(res.StatusCode, res.Header, string(body), "\n")
			}
		}
	}
	if sent.Load() < 24 {
		t.Errorf("the credential went out %d times", sent.Load())
	}
	hidden(t, "what the tool is told", told, inQuery, inPath)
	all := k.told(t, spans)
	says(t, "what was said", all, "TOOLGATE_BOT_TOKEN", `"msg":"payload"`, "upstream_unreachable", "upstream_protocol", "credential_denied")
	hidden(t, "what was said", all, inQuery, inPath)
}

// mostTalkative turns everything on that makes the sidecar, the injector and the libraries below talk.
func mostTalkative(t *testing.T, w *world) {
	loud := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Environ(), "GODEBUG=http2debug=2,gctrace=0", "DEBUG=1") }
	k := w.lab.files(t, talkative)
	k.launch = func(cmd *exec.Cmd) error { loud(cmd); return cmd.Start() }
	k.start(t)
	for proto, c := range k.transports(t) {
		if status, all := heard(t, c, "GET", "/"); status != http.StatusOK {
			t.Fatalf("%s: %s", proto, all)
		}
	}
	if protos := w.protocols(); !strings.Contains(protos, "HTTP/2.0") {
		t.Errorf("the upstream was asked in %s", protos)
	}
	all := k.told(t)
	hidden(t, "what the sidecar said", all, append(parts(k.tokenA), secretA)...)
	ownLines(t, "the sidecar's log", k.stderr.String(), "time", "level", "msg")
	t.Run("injector", func(t *testing.T) { w.loudInjector(t, loud) })
}

func (l *lab) protocols() string {
	var all []string
	for _, a := range l.up.arrivals() {
		all = append(all, a.proto)
	}
	return strings.Join(all, " ")
}

// loudInjector has the injector ask an API server that repeats its token in errors.
func (l *lab) loudInjector(t *testing.T, loud func(*exec.Cmd)) {
	const token = "quiet-service-account-token-stone"
	var asked atomic.Int64
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			asked.Add(1)
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Warning", `299 - "`+r.Header.Get("Authorization")+`"`)
		rw.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"you sent %s"}`, r.Header.Get("Authorization"))
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	defer api.Close()
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(api.Listener.Addr().String()))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"token": token,
		"kubeconfig": fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
			"clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {tokenFile: %q}}]\n", api.URL, filepath.Join(dir, "token")),
		"settings.yaml": "apiVersion: toolgate/v1\nkind: Injector\nsidecarImage: registry.example/sidecar:1\nfenceImage: registry.example/fence:1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Getenv(insideEnv)), "injector"), "serve", "--settings", filepath.Join(dir, "settings.yaml"), "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--namespace", "toolgate", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-level", "debug")
	loud(cmd)
	out, err := cmd.CombinedOutput()
	if err == nil || asked.Load() == 0 {
		t.Fatalf("%v, %d requests with the token: %s", err, asked.Load(), out)
	}
	says(t, "the injector", string(out), "trying again", "you sent")
	hidden(t, "what the injector said", string(out), token)
}
