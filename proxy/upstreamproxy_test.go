package proxy

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// corporate is a CONNECT proxy on loopback that remembers what it was asked.
type corporate struct {
	t      *testing.T
	ln     net.Listener
	mu     sync.Mutex
	asked  []*http.Request
	user   string            // the "user:password" that it wants; empty: none
	to     map[string]string // where a port leads, whatever the name; else to the same port of loopback
	answer func(net.Conn)    // in place of connecting
}

func startCorporate(t *testing.T) *corporate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &corporate{t: t, ln: ln, to: map[string]string{}}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	t.Cleanup(func() { _ = ln.Close() })
	return p
}

func (p *corporate) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req)
	_, port, _ := net.SplitHostPort(req.Host)
	user, answer, place := p.user, p.answer, p.to[port]
	p.mu.Unlock()
	switch {
	case answer != nil:
		answer(c)
		return
	case user != "" && req.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(user)):
		_, _ = io.WriteString(c, "HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm=\"corporate-text\"\r\nContent-Length: 14\r\n\r\ncorporate-text")
		return
	}
	if place == "" {
		place = "127.0.0.1:" + port
	}
	up, err := net.Dial("tcp", place)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 corporate-text\r\n\r\ncorporate-text")
		return
	}
	_, _ = io.WriteString(c, established)
	go func() {
		_, _ = io.Copy(up, r)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
	_ = up.Close()
}

// set changes the proxy while it runs.
func (p *corporate) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// take returns the requests so far and forgets them.
func (p *corporate) take() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.asked
	p.asked = nil
	return taken
}

func (p *corporate) url() string { return "http://" + p.ln.Addr().String() }

// by makes the lab's upstreams reachable by way of p.
func (p *corporate) by(more string) labOption {
	return func(f *labFiles) {
		f.config = replaceOnce(f.config, "egress:\n", "egress:\n  upstreamProxy: \""+p.url()+"\"\n"+more)
	}
}

const proxyUser = "  upstreamProxyCredentialsFile: proxy-user\n"

// withUser is by with credentials from a file.
func (p *corporate) withUser(t *testing.T, user string) labOption {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proxy-user")
	writeUser(t, file, user)
	return p.by(strings.Replace(proxyUser, "proxy-user", file, 1))
}

func writeUser(t *testing.T, file, user string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(user+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// asks checks that p was asked once and for target, with these credentials and nothing of the client's.
func (p *corporate) asks(l *lab, target, user string) {
	l.t.Helper()
	taken := p.take()
	if len(taken) != 1 {
		l.t.Fatalf("the upstream proxy was asked %d times", len(taken))
	}
	want := http.Header{}
	if user != "" {
		want.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
	}
	r := taken[0]
	if r.Method != http.MethodConnect || r.Host != target || r.RequestURI != target || fmt.Sprint(r.Header) != fmt.Sprint(want) {
		l.t.Errorf("asked %s %s (Host %s) with %v, expected a CONNECT to %s with %v", r.Method, r.RequestURI, r.Host, r.Header, target, want)
	}
}

// canaries stand where the names of the lab's upstreams lead without the upstream proxy. Nobody may call there.
type canaries struct {
	tls, plain *net.TCPListener
}

// labBehind is a lab whose upstreams are where only p leads to.
func labBehind(t *testing.T, p *corporate, options ...labOption) (*lab, *canaries) {
	t.Helper()
	c := &canaries{canary(t), canary(t)}
	var tlsPort, plainPort string
	l := newLab(t, append([]labOption{func(f *labFiles) {
		tlsPort, plainPort = portOf(f.allowed("bound.ok.test:")), portOf(f.allowed("plain.ok.test:"))
		r := strings.NewReplacer(tlsPort, portOf(c.tls.Addr().String()), plainPort, portOf(c.plain.Addr().String()))
		f.config, f.manifest = r.Replace(f.config), r.Replace(f.manifest)
	}}, options...)...)
	p.set(func() {
		p.to[portOf(c.tls.Addr().String())] = "127.0.0.1:" + tlsPort
		p.to[portOf(c.plain.Addr().String())] = "127.0.0.1:" + plainPort
	})
	t.Cleanup(func() { c.silent(t) })
	return l, c
}

func canary(t *testing.T) *net.TCPListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln.(*net.TCPListener)
}

func portOf(place string) string {
	_, p, _ := net.SplitHostPort(place)
	return p
}

// place returns host:port of a route.
func (c *canaries) place(r route) string {
	ln := c.tls
	if r.scheme == "http" {
		ln = c.plain
	}
	return r.host + ":" + portOf(ln.Addr().String())
}

// silent fails the test if anybody has connected: the queue's head must be a connection made here and now.
func (c *canaries) silent(t *testing.T) {
	for _, ln := range []*net.TCPListener{c.tls, c.plain} {
		own, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		first, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if first.RemoteAddr().String() != own.LocalAddr().String() {
			t.Errorf("an upstream was dialled directly, from %s", first.RemoteAddr())
		}
		_, _, _ = first.Close(), own.Close(), ln.Close()
	}
}

var relayed = route{"relayed", "https", "pass.ok.test", false}

// TestEveryRouteGoesThroughTheUpstreamProxy, and to nothing else. Neither hop's credentials reach the other.
func TestEveryRouteGoesThroughTheUpstreamProxy(t *testing.T) {
	const user = "side:car:password"
	for _, r := range append(slices.Clone(routes), relayed) {
		t.Run(r.name, func(t *testing.T) {
			p := startCorporate(t)
			p.user = user
			l, c := labBehind(t, p, p.withUser(t, user))
			l.tls.TLS.NextProtos = []string{"h2", "http/1.1"} // without a choice, the first call would connect twice
			header := make(chan http.Header, 1)
			l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
				header <- req.Header
				_, _ = io.WriteString(w, "hello")
			})
			status, body, err := get(l.client(l.token, r.h2), r.scheme+"://"+c.place(r)+"/")
			if err != nil || status != 200 || body != "hello" {
				t.Fatalf("%d %q %v", status, body, err)
			}
			p.asks(l, c.place(r), user)
			if h := <-header; h.Get("Proxy-Authorization") != "" {
				t.Errorf("the upstream got %v", h)
			}
			if r == relayed { // its record comes when its connection is closed
				return
			}
			if rec := l.next(); rec.str("decision") != "allow" || rec["dial_attempts"] != 1.0 {
				t.Errorf("record %v", rec)
			}
			if said := l.printed(); strings.Contains(said, "car:password") || strings.Contains(said, base64.StdEncoding.EncodeToString([]byte(user))) {
				t.Error("the log or a record shows the upstream proxy's credentials")
			}
		})
	}
}

func TestWebSocketsGoThroughTheUpstreamProxy(t *testing.T) {
	for _, r := range routes[:2] {
		t.Run(r.name, func(t *testing.T) {
			p := startCorporate(t)
			l, c := labBehind(t, p, p.by(""))
			l.sockets(echo)
			w := l.wire(r, c.place(r))
			w.send("GET", "/ws", "HTTP/1.1", handshake, textFrame("frame"))
			w.switched()
			w.expect(textFrame("frame"))
			p.asks(l, c.place(r), "")
			_ = w.Close()
			l.next()
		})
	}
}

// TestUpstreamsThatSpeakFirst: what the upstream sends together with the proxy's answer arrives.
func TestUpstreamsThatSpeakFirst(t *testing.T) {
	const greeting = "SSH-2.0-upstream\r\n"
	p := startCorporate(t)
	p.answer = func(c net.Conn) {
		_, _ = io.WriteString(c, established+greeting)
		_, _ = io.Copy(c, c)
	}
	l, c := labBehind(t, p, p.by(""))
	tunnel := l.connectTo(c.place(relayed), "early")
	want := greeting + "early"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(tunnel, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	_ = tunnel.Close()
	l.next()
}

// TestNamesBehindTheUpstreamProxy: what the resolver does not know is asked for by name; what it knows is judged.
func TestNamesBehindTheUpstreamProxy(t *testing.T) {
	p := startCorporate(t)
	l, c := labBehind(t, p, p.by(""))
	l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	tunnel := l.connectTo(c.place(route{scheme: "https", host: "absent.ok.test"}), "")
	p.asks(l, c.place(route{scheme: "https", host: "absent.ok.test"}), "")
	_ = tunnel.Close()
	l.next()
	for target, code := range map[string]string{
		c.place(route{scheme: "https", host: "private.ok.test"}): "private_network",
		"169.254.169.254:80": "private_network",
		"evil.ok.test:443":   "domain_not_allowed",
	} {
		l.refusedConnect(target, code)
		l.next()
	}
	if asked := p.take(); len(asked) != 0 {
		t.Errorf("the upstream proxy was asked for %s", asked[0].Host)
	}
}

// refusedConnect checks the status line of a CONNECT that is refused.
func (l *lab) refusedConnect(target, code string) {
	l.t.Helper()
	conn := l.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", target, target, l.basic(l.token))
	all, err := io.ReadAll(conn)
	line, _, _ := bytes.Cut(all, []byte("\r\n"))
	if err != nil || !strings.HasSuffix(string(line), ": "+code) {
		l.t.Errorf("CONNECT %s: %q %v, expected %s", target, line, err, code)
	}
	if strings.Contains(string(all), "corporate-text") || strings.Contains(string(all), "127.0.0.1") {
		l.t.Errorf("the refusal says too much: %q", all)
	}
}

// TestUpstreamProxyFailures: each is told apart in the record, and nothing that the proxy said reaches tool, log or record.
func TestUpstreamProxyFailures(t *testing.T) {
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	for name, tt := range map[string]struct {
		answer func(net.Conn)
		code   Code
		class  string
	}{
		"407":       {say("HTTP/1.1 407 corporate-text\r\n\r\ncorporate-text"), UpstreamUnreachable, "upstream_proxy_auth"},
		"403":       {say("HTTP/1.1 403 corporate-text\r\nX: corporate-text\r\n\r\ncorporate-text"), UpstreamUnreachable, "upstream_proxy"},
		"garbage":   {say("corporate-text\r\n\r\n"), UpstreamUnreachable, "upstream_proxy"},
		"folded":    {say("HTTP/1.1 200 OK\r\n corporate-text\r\n\r\n"), UpstreamUnreachable, "upstream_proxy"},
		"too long":  {say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("corporate-text", 2000)), UpstreamUnreachable, "upstream_proxy"},
		"no answer": {func(net.Conn) {}, UpstreamUnreachable, "upstream_proxy"},
		"hangs":     {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, UpstreamTimeout, "timeout"},
		"half":      {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"); _, _ = io.Copy(io.Discard, c) }, UpstreamTimeout, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startCorporate(t)
			p.answer = tt.answer
			timeout := "dialTimeout: 3s"
			if tt.class == "timeout" {
				timeout = "dialTimeout: 200ms"
			}
			l, c := labBehind(t, p, p.by(""), replaced(t, "dialTimeout: 3s", timeout))
			for _, r := range routes {
				l.checkFailure(l.client(l.token, r.h2), r.scheme+"://"+c.place(r)+"/", meanings[tt.code].status, tt.code, tt.class)
			}
			l.refusedConnect(c.place(relayed), string(tt.code))
			if rec := l.next(); rec.str("error_class") != tt.class || rec.str("code") != string(tt.code) {
				t.Errorf("record %v", rec)
			}
			if strings.Contains(l.printed(), "corporate-text") {
				t.Error("the log or a record repeats what the upstream proxy said")
			}
		})
	}
}

// TestUpstreamProxyThatIsNotThere: no direct dial takes its place.
func TestUpstreamProxyThatIsNotThere(t *testing.T) {
	p := startCorporate(t)
	l, c := labBehind(t, p, p.by(""))
	_ = p.ln.Close()
	l.checkFailure(l.client(l.token, false), "http://"+c.place(routes[0])+"/", 502, UpstreamUnreachable, "upstream_proxy")
}

// TestUpstreamProxyCredentials: none, wrong, right, changed, gone.
func TestUpstreamProxyCredentials(t *testing.T) {
	p := startCorporate(t)
	p.user = "sidecar:first"
	file := filepath.Join(t.TempDir(), "user")
	writeUser(t, file, "sidecar:wrong")
	l, c := labBehind(t, p, p.by(strings.Replace(proxyUser, "proxy-user", file, 1)))
	refused := func() { t.Helper(); l.refusedConnect(c.place(relayed), "upstream_unreachable") }
	class := func(want string) {
		t.Helper()
		if rec := l.next(); rec.str("error_class") != want {
			t.Errorf("record %v, expected class %s", rec, want)
		}
	}
	opens := func() {
		t.Helper()
		_ = l.connectTo(c.place(relayed), "").Close()
		l.next()
	}
	refused()
	class("upstream_proxy_auth")
	writeUser(t, file, "sidecar:first")
	opens()
	p.set(func() { p.user = "sidecar:other" })
	refused()
	class("upstream_proxy_auth")
	writeUser(t, file, "sidecar:other")
	opens()
	p.take()
	writeUser(t, file, "no colon here")
	refused()
	class("upstream_proxy_auth")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused()
	class("upstream_proxy_auth")
	if asked := p.take(); len(asked) != 0 {
		t.Error("the upstream proxy was asked without the credentials that it should have got")
	}
	for _, secret := range []string{"sidecar:", "no colon", base64.StdEncoding.EncodeToString([]byte("sidecar:first")), base64.StdEncoding.EncodeToString([]byte("sidecar:wrong"))} {
		if strings.Contains(l.printed(), secret) {
			t.Errorf("the log or a record shows %q", secret)
		}
	}
}

func TestUpstreamProxyWithoutCredentials(t *testing.T) {
	p := startCorporate(t)
	p.user = "sidecar:first"
	l, c := labBehind(t, p, p.by(""))
	l.checkFailure(l.client(l.token, false), "http://"+c.place(routes[0])+"/", 502, UpstreamUnreachable, "upstream_proxy_auth")
	p.asks(l, c.place(routes[0]), "")
}

// TestUpstreamProxyIsNeverTheSidecar: a name that leads to one of its own listeners is no proxy.
func TestUpstreamProxyIsNeverTheSidecar(t *testing.T) {
	p := startCorporate(t)
	l, c := labBehind(t, p, p.by(""))
	g, err := NewGates(l.proxy.Gates().snapshot, []netip.AddrPort{netip.MustParseAddrPort(p.ln.Addr().String())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.proxy.Reload(g)
	l.checkFailure(l.client(l.token, false), "http://"+c.place(routes[0])+"/", 502, UpstreamUnreachable, "upstream_proxy")
	if asked := p.take(); len(asked) != 0 {
		t.Error("one of the sidecar's own listeners was asked")
	}
}

// TestReloadOfTheUpstreamProxy: from none to one to another, on a client's kept connection.
func TestReloadOfTheUpstreamProxy(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, false)
	first, second := startCorporate(t), startCorporate(t)
	for _, p := range []*corporate{nil, first, second, nil} {
		f := l.files()
		if p != nil {
			p.by("")(&f)
		}
		l.write("sidecar.yaml", f.config)
		l.proxy.Reload(l.load())
		if status, body, err := get(client, l.url("http", "plain.ok.test", "/")); err != nil || status != 200 {
			t.Fatalf("%d %q %v", status, body, err)
		}
		for _, x := range []*corporate{first, second} {
			if asked := len(x.take()); (asked == 1) != (x == p) || asked > 1 {
				t.Errorf("asked %d times, expected %v", asked, x == p)
			}
		}
	}
}
