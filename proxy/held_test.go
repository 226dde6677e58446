package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/killswitch"
)

// holding binds bound.ok.test to a credential that sees bodies whole: a placeholder in JSON.
func holding(f *labFiles) {
	before, rest, _ := strings.Cut(f.config, "      tokenExchange:")
	_, after, _ := strings.Cut(rest, "egress:\n")
	f.config = before + `      placeholders:
        - {text: TOOLGATE_HELD_KEY, file: secret, in: ["json:$.key", "header:X-Api-Key", "query:key"]}
egress:
` + after
}

const (
	heldIn  = `{"key": "TOOLGATE_HELD_KEY", "n": 1}`
	heldOut = `{"key": "client-secret-value", "n": 1}`
)

// got is a request as an upstream read it.
type got struct {
	header, trailer http.Header
	uri, body       string
	length          int64
}

// heldLab is a lab whose upstream reads requests whole and tells of them.
func heldLab(t *testing.T, options ...labOption) (*lab, chan got) {
	t.Helper()
	l, reads := newLab(t, append([]labOption{holding}, options...)...), make(chan got, 16)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		reads <- got{r.Header, r.Trailer, r.RequestURI, string(b), r.ContentLength}
	})
	return l, reads
}

// free waits until no body is held.
func (l *lab) free() {
	l.t.Helper()
	eventually(l.t, "no body held", func() bool { return l.proxy.held.now() == 0 })
}

// intercepted are the routes on which there are credentials.
var intercepted = routes[1:]

func overHeld(t *testing.T, test func(t *testing.T, l *lab, r route, reads chan got), options ...labOption) {
	for _, r := range intercepted {
		t.Run(r.name, func(t *testing.T) {
			l, reads := heldLab(t, options...)
			test(t, l, r, reads)
			l.free()
			if len(reads) > 0 {
				t.Errorf("the upstream got %+v as well", <-reads)
			}
		})
	}
}

func (l *lab) jsonRequest(r route, path string, body io.Reader) *http.Request {
	req, err := http.NewRequest("POST", l.on(r, path), body)
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// announced is a request whose client announces more than it sends before it has the answer. One that sends all may be reset while it
// does, since more of a refused body is not read than a moment's.
func (l *lab) announced(r route, path, begin string, length int64) *http.Request {
	body, w := io.Pipe()
	req := l.jsonRequest(r, path, body)
	req.ContentLength = length
	go func() { _, _ = io.WriteString(w, begin) }() // ends when the transport closes body, too
	return req
}

func (l *lab) getRequest(r route, path string) *http.Request {
	req, err := http.NewRequest("GET", l.on(r, path), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return req
}

func TestHeldBody(t *testing.T) {
	overHeld(t, func(t *testing.T, l *lab, r route, reads chan got) {
		for _, body := range []io.Reader{strings.NewReader(heldIn), io.MultiReader(strings.NewReader(heldIn))} { // of a known length, and not
			req := l.jsonRequest(r, "/p?key=TOOLGATE_HELD_KEY", body)
			req.Header.Set("X-Api-Key", "TOOLGATE_HELD_KEY")
			if res := l.do(r, req); res.StatusCode != 200 {
				t.Fatalf("status %d", res.StatusCode)
			}
			g := <-reads
			if g.body != heldOut || g.length != int64(len(heldOut)) || g.uri != "/p?key=client-secret-value" || g.header.Get("X-Api-Key") != "client-secret-value" {
				t.Errorf("the upstream got %+v", g)
			}
			if rec := l.next(); rec.str("credential_binding") != "bound" || rec.str("decision") != "allow" {
				t.Errorf("record %v", rec)
			}
		}
		for _, req := range []*http.Request{l.getRequest(r, "/none"), l.jsonRequest(r, "/none", strings.NewReader(""))} {
			if res := l.do(r, req); res.StatusCode != 200 {
				t.Errorf("a request without a body: status %d", res.StatusCode)
			}
			if g := <-reads; g.body != "" {
				t.Errorf("the upstream got %+v", g)
			}
		}
		if text := l.printed(); strings.Contains(text, "client-secret-value") {
			t.Errorf("the secret was written:\n%s", text)
		}
	})
}

// What is refused is told, and nothing of it leaves.
func TestHeldRefused(t *testing.T) {
	overHeld(t, func(t *testing.T, l *lab, r route, _ chan got) {
		large := heldIn + strings.Repeat(" ", 1<<20)
		for name, req := range map[string]*http.Request{
			"too large":               l.announced(r, "/p", heldIn, int64(len(large))),
			"too large, length late":  l.jsonRequest(r, "/p", io.MultiReader(strings.NewReader(large))),
			"elsewhere in the body":   l.jsonRequest(r, "/p", strings.NewReader(`{"k": "TOOLGATE_HELD_KEY"}`)),
			"in the path":             l.jsonRequest(r, "/TOOLGATE_HELD_KEY", strings.NewReader(`{}`)),
			"two of a name":           l.jsonRequest(r, "/p", strings.NewReader(`{"key": "TOOLGATE_HELD_KEY", "key": ""}`)),
			"in the path, no body":    l.getRequest(r, "/TOOLGATE_HELD_KEY"),
			"in another header":       with(l.getRequest(r, "/"), "X-Other", "TOOLGATE_HELD_KEY"),
			"in a header and a proxy": with(l.jsonRequest(r, "/p", strings.NewReader(`{}`)), "X-Forwarded", "by TOOLGATE_HELD_KEY"),
		} {
			res := l.do(r, req)
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p := problemOf(t, string(b))
			if res.StatusCode != 403 || p.Code != CredentialDenied {
				t.Errorf("%s: %d %s", name, res.StatusCode, b)
			}
			if !strings.HasPrefix(name, "too large") && !strings.Contains(p.Detail, "json:$.key, header:X-Api-Key, query:key") {
				t.Errorf("%s: the refusal does not say where it is replaced: %s", name, p.Detail)
			}
			if rec := l.next(); rec.str("code") != "credential_denied" || rec.str("decision") != "deny" || rec.str("error_class") != "credential" {
				t.Errorf("%s: record %v", name, rec)
			}
		}
		l.noMore()
	})
}

func with(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

// Another target is no business of a binding's: nothing can leak there.
func TestPlaceholderElsewhere(t *testing.T) {
	l, reads := heldLab(t)
	req := l.jsonRequest(route{scheme: "https", host: "ruled.ok.test"}, "/ok?key=TOOLGATE_HELD_KEY", strings.NewReader(heldIn))
	res, err := l.client(l.token, false).Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	if g := <-reads; g.body != heldIn || g.uri != "/ok?key=TOOLGATE_HELD_KEY" {
		t.Errorf("the upstream got %+v", g)
	}
}

// A client that waits to be asked is asked, since the credential needs the body; the upstream is not offered it.
func TestHeldExpectContinue(t *testing.T) {
	l, reads := heldLab(t)
	w := l.wire(intercepted[0], "")
	w.send("POST", "/p", "HTTP/1.1", "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 36\r\n", "")
	if res := w.response(); res.StatusCode != 100 {
		t.Fatalf("status %d", res.StatusCode)
	}
	_, _ = io.WriteString(w, heldIn)
	if res := w.response(); res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	if g := <-reads; g.body != heldOut || g.header["Expect"] != nil {
		t.Errorf("the upstream got %+v", g)
	}
	l.free()
}

// A body that is announced as too large is refused before the client is asked for it.
func TestHeldExpectTooLarge(t *testing.T) {
	l, _ := heldLab(t)
	w := l.wire(intercepted[0], "")
	w.send("POST", "/p", "HTTP/1.1", "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 1048577\r\n", "")
	if res := w.response(); res.StatusCode != 403 {
		t.Errorf("status %d", res.StatusCode)
	}
	l.free()
}

func TestHeldTrailers(t *testing.T) {
	overHeld(t, func(t *testing.T, l *lab, r route, reads chan got) {
		req := l.jsonRequest(r, "/p", io.MultiReader(strings.NewReader(heldIn)))
		req.Trailer = http.Header{"X-Sum": {"1"}, "Cookie": {"evil=1"}}
		if res := l.do(r, req); res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
		if g := <-reads; g.body != heldOut || g.trailer.Get("X-Sum") != "1" || len(g.trailer) != 1 {
			t.Errorf("the upstream got %+v", g)
		}
		req = l.jsonRequest(r, "/p", io.MultiReader(strings.NewReader(heldIn)))
		req.Trailer = http.Header{"X-Sum": {"TOOLGATE_HELD_KEY"}}
		if res := l.do(r, req); res.StatusCode != 403 {
			t.Errorf("a placeholder in a trailer: status %d", res.StatusCode)
		}
	})
}

// The memory of all held bodies is bounded, and given back.
func TestHeldMemory(t *testing.T) {
	overHeld(t, func(t *testing.T, l *lab, r route, reads chan got) {
		if !l.proxy.held.take("t2", "", maxHeld-1<<20+1) {
			t.Fatal("the memory is taken")
		}
		res := l.do(r, l.jsonRequest(r, "/p", strings.NewReader(heldIn)))
		b, _ := io.ReadAll(res.Body)
		if p := problemOf(t, string(b)); res.StatusCode != 503 || p.Code != Overloaded || len(reads) > 0 {
			t.Errorf("%d %s", res.StatusCode, b)
		}
		if res := l.do(r, l.getRequest(r, "/p")); res.StatusCode != 200 {
			t.Errorf("a request without a body: %d", res.StatusCode)
		}
		<-reads
		l.proxy.held.give("t2", "", maxHeld-1<<20+1)
		l.free()
		if res := l.do(r, l.jsonRequest(r, "/p", strings.NewReader(heldIn))); res.StatusCode != 200 {
			t.Errorf("status %d", res.StatusCode)
		}
		<-reads
	})
}

func (h *held) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// While an answer comes, which may take hours, a call holds what its body needs and no more.
func TestHeldMemoryIsSettled(t *testing.T) {
	l := newLab(t, holding)
	during := make(chan int64, 1)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		during <- l.proxy.held.now()
	})
	for _, r := range intercepted {
		if res := l.do(r, l.jsonRequest(r, "/p", strings.NewReader(heldIn))); res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
		if got := <-during; got != int64(len(heldIn)+len(heldOut)) {
			t.Errorf("%s: %d bytes", r.name, got)
		}
		l.free()
	}
}

// One tool, or one tenant, whose bodies never end leaves room to others, and they to the next.
func TestHeldMemoryIsShared(t *testing.T) {
	for name, who := range map[string]func(i int) (tool, tenant string){
		"a tool's":   func(i int) (string, string) { return "t1", fmt.Sprint("tenant-", i) },
		"a tenant's": func(i int) (string, string) { return fmt.Sprint("t", i), "acme" },
	} {
		var h held
		n := 0
		for h.take(at(who(n))) {
			n++
		}
		if n != 32 {
			t.Errorf("%s: %d of 64", name, n)
		}
		if !h.take("other", "other", 8<<20) || !h.take("third", "", 8<<20) {
			t.Errorf("%s: nothing is left to others", name)
		}
		for i := range n {
			tool, tenant := who(i)
			h.give(tool, tenant, 1<<20)
		}
		h.give("other", "other", 8<<20)
		h.give("third", "", 8<<20)
		if h.bytes != 0 || len(h.tools)+len(h.tenants) != 0 {
			t.Errorf("%s: %+v stays", name, &h)
		}
	}
}

func at(tool, tenant string) (string, string, int64) { return tool, tenant, 1 << 20 }

// halfBody gives the half of a body and then nothing until it is told how to go on.
type halfBody struct {
	first io.Reader
	then  context.Context
}

func (b *halfBody) Read(p []byte) (int, error) {
	if n, err := b.first.Read(p); err == nil {
		return n, nil
	}
	<-b.then.Done()
	return 0, io.ErrUnexpectedEOF
}

// A client that leaves, is cut, or takes too long in the middle of its body: nothing is sent, and nothing stays held.
func TestHeldBodyThatEndsMidway(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(l *lab, leave context.CancelFunc)
		class string
		opt   labOption
	}{
		"leaves":    {func(_ *lab, leave context.CancelFunc) { leave() }, "", nil},
		"is killed": {func(l *lab, _ context.CancelFunc) { l.revoke(killswitch.Selector{Tool: []string{"t1"}}) }, "cut", nil},
		"stalls":    {func(*lab, context.CancelFunc) {}, "timeout", func(f *labFiles) { f.manifest = replaceOnce(f.manifest, "timeoutMs: 30000", "timeoutMs: 300") }},
	} {
		t.Run(name, func(t *testing.T) {
			options := []labOption{}
			if c.opt != nil {
				options = append(options, c.opt)
			}
			overHeld(t, func(t *testing.T, l *lab, r route, _ chan got) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				req := l.jsonRequest(r, "/p", &halfBody{strings.NewReader(heldIn[:10]), ctx}).WithContext(ctx)
				req.ContentLength = int64(len(heldIn))
				client := l.client(l.token, r.h2)
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					if res, err := client.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
				}()
				eventually(t, "a body being held", func() bool { return l.proxy.held.now() > 0 })
				c.end(l, leave)
				rec := l.next()
				if class := rec.str("error_class"); c.class != "" && class != c.class || rec.str("error_class") == "" && rec.str("code") == "" {
					t.Errorf("record %v", rec)
				}
				l.free()
				leave()
				<-answered
			}, options...)
		})
	}
}

// staleUpstream speaks TLS and HTTP/1.1 by hand. Each connection but the last answers one request, and is closed when the second has come.
func staleUpstream(t *testing.T) (l *lab, at string, requests func() []got, stale *atomic.Bool) {
	t.Helper()
	var mu sync.Mutex
	var all []got
	conns := 0
	stale = new(atomic.Bool) // a request came on the connection that was kept
	ready := make(chan struct{})
	l, at = rawUpstream(t, func(c net.Conn) {
		defer c.Close()
		<-ready // l is there
		mu.Lock()
		conns++
		first := conns == 1
		mu.Unlock()
		leaf, err := l.upstreamCA.Leaf("*.ok.test")
		if err != nil {
			return
		}
		tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*leaf}, NextProtos: []string{"http/1.1"}})
		br := bufio.NewReader(tc)
		for n := 1; ; n++ {
			if first && n == 2 {
				if _, err := textproto.NewReader(br).ReadLine(); err == nil { // the request has begun to come
					stale.Store(true)
				}
				return
			}
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			all = append(all, got{header: r.Header, uri: r.RequestURI, body: string(b)})
			mu.Unlock()
			_, _ = io.WriteString(tc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}, holding, func(f *labFiles) {
		raw := f.allowed("raw.ok.test:")
		f.config = replaceOnce(f.config, "targets: [", `targets: ["`+raw+`", `)
	})
	close(ready)
	return l, at, func() []got { mu.Lock(); defer mu.Unlock(); return append([]got(nil), all...) }, stale
}

// A kept connection that the upstream closes is found out when the next request is on it. What may be sent again is sent with the
// credential; what may not be is not.
func TestHeldOnAStaleConnection(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for name, c := range map[string]struct {
			body  string
			again bool
		}{"without a body": {"", true}, "with a body": {heldIn, false}} {
			t.Run(name, func(t *testing.T) {
				// net/http does not keep a connection whose last write it has not heard of within 50 ms, as on a busy machine.
				for try := 1; !heldOnAStaleConnection(t, h2, c.body, c.again); try++ {
					if try == 5 {
						t.Fatal("no connection was kept")
					}
				}
			})
		}
	}
}

// heldOnAStaleConnection reports whether the second request was on the connection of the first; if not, it has shown nothing.
func heldOnAStaleConnection(t *testing.T, h2 bool, body string, again bool) bool {
	l, at, requests, stale := staleUpstream(t)
	client := l.client(l.token, h2)
	send := func() int {
		method, r := "GET", io.Reader(nil)
		if body != "" {
			method, r = "POST", strings.NewReader(body)
		}
		req, err := http.NewRequest(method, "https://"+at+"/p?key=TOOLGATE_HELD_KEY", r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", "TOOLGATE_HELD_KEY")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if status := send(); status != 200 {
		t.Fatalf("status %d", status)
	}
	second := send()
	if !stale.Load() {
		return false
	}
	want := 502
	if again {
		want = 200
	}
	if second != want {
		t.Errorf("h2 client %v: the second request: status %d", h2, second)
	}
	if status := send(); status != 200 {
		t.Errorf("h2 client %v: the third request: status %d", h2, status)
	}
	all := requests()
	if n := map[bool]int{true: 3, false: 2}[again]; len(all) != n {
		t.Errorf("the upstream got %d requests", len(all))
	}
	for _, g := range all {
		if g.header.Get("X-Api-Key") != "client-secret-value" || g.uri != "/p?key=client-secret-value" || g.body != strings.ReplaceAll(body, heldIn, heldOut) {
			t.Errorf("the upstream got %+v", g)
		}
	}
	l.free()
	return true
}

// A request that was to have a stream, and goes over HTTP/1.1 when the upstream turns out to lack HTTP/2, goes whole.
func TestHeldAcrossProtocols(t *testing.T) {
	l, reads := heldLab(t)
	l.tls.TLS.NextProtos = []string{"http/1.1"}
	req := l.jsonRequest(intercepted[1], "/p", io.MultiReader(strings.NewReader(heldIn)))
	req.Trailer = http.Header{"X-Sum": {"1"}}
	if res := l.do(intercepted[1], req); res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	if g := <-reads; g.body != heldOut || g.trailer.Get("X-Sum") != "1" {
		t.Errorf("the upstream got %+v", g)
	}
	l.free()
}

// An upstream must not tell the tool what it was sent, in whatever form it was.
func TestPlaceholderIsNotEchoed(t *testing.T) {
	l := newLab(t, holding)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.RequestURI)
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append(b, r.Header.Get("X-Api-Key")...))
	})
	for _, r := range intercepted {
		req := with(l.jsonRequest(r, "/p?key=TOOLGATE_HELD_KEY", strings.NewReader(heldIn)), "X-Api-Key", "TOOLGATE_HELD_KEY")
		res := l.do(r, req)
		b, err := io.ReadAll(res.Body)
		if err != nil || strings.Contains(string(b)+res.Header.Get("Location"), "client-secret-value") || !strings.Contains(string(b), `"n": 1`) {
			t.Errorf("%s: %q %v %v", r.name, b, res.Header, err)
		}
		_ = l.next()
	}
}
