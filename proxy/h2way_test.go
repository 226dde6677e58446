package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// choosy is an intercepted upstream that speaks the given protocols.
func choosy(t *testing.T, h http.HandlerFunc, protocols ...string) (l *lab, at string, conns *atomic.Int32) {
	t.Helper()
	conns = new(atomic.Int32)
	strict := slices.Equal(protocols, []string{"h2", "strict"})
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { // net/http adds to its own
		leaf, err := l.upstreamCA.Leaf("*.ok.test")
		if err != nil {
			return nil, err
		}
		protocols := protocols
		if strict && !slices.Contains(h.SupportedProtos, "h2") {
			protocols = []string{"none"} // crypto/tls does not refuse HTTP/1.1 for the want of h2 alone
		}
		return &tls.Config{NextProtos: protocols, Certificates: []tls.Certificate{*leaf}}, nil
	}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	at = "choosy.ok.test:" + port(s)
	l = newLab(t, func(f *labFiles) {
		f.config = replaceOnce(f.config, "tools: [t1]}]", "tools: [t1]}, {prefix: \"127.0.0.1/32\", ports: ["+port(s)+"], tools: [t1]}]")
		f.config += "intercept: {targets: [\"" + at + "\"]}\n"
		f.manifest = replaceOnce(f.manifest, "allowedDomains: [", "allowedDomains: [\""+at+"\", ")
	})
	return l, at, conns
}

// asked are requests of an h2 client, and what they need.
var asked = []struct {
	name    string
	needsH2 bool
	make    func(at string) *http.Request
}{
	{"no body", false, func(at string) *http.Request { return mustRequest("GET", at, nil) }},
	{"a body of a known length", false, func(at string) *http.Request { return mustRequest("POST", at, strings.NewReader("body")) }},
	{"a body of any length", true, func(at string) *http.Request {
		return mustRequest("POST", at, io.MultiReader(strings.NewReader("body")))
	}},
	{"trailers wanted", true, func(at string) *http.Request {
		r := mustRequest("GET", at, nil)
		r.Header["Te"] = []string{"trailers"}
		return r
	}},
	{"trailers given", true, func(at string) *http.Request {
		r := mustRequest("POST", at, strings.NewReader("body"))
		r.Trailer = http.Header{"Sum": {"1"}}
		return r
	}},
	{"gRPC", true, func(at string) *http.Request {
		r := mustRequest("POST", at, strings.NewReader("body"))
		r.Header["Content-Type"] = []string{"application/grpc"}
		return r
	}},
}

func mustRequest(method, at string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, "https://"+at+"/", body)
	if err != nil {
		panic(err)
	}
	r.Header["User-Agent"] = nil
	return r
}

// TestProtocolToTheUpstream: the request's need and the upstream's ability decide. A request is sent whole and once, whatever had
// to be found out first.
func TestProtocolToTheUpstream(t *testing.T) {
	for _, c := range []struct {
		speaks      []string
		plain, rest int // the protocol of a request that needs HTTP/2, and of any other
	}{
		{[]string{"h2", "http/1.1"}, 1, 2},
		{[]string{"http/1.1"}, 1, 1},
		{[]string{"h2", "strict"}, 2, 2}, // refuses whoever does not offer h2
		{[]string{"h2"}, 2, 2},           // chooses nothing then
		{nil, 1, 1},                      // knows nothing of the choice
	} {
		for _, r := range asked {
			t.Run(fmt.Sprintf("%v, %s", c.speaks, r.name), func(t *testing.T) {
				var conns *atomic.Int32
				l, at, conns := choosy(t, func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					_, agent := r.Header["User-Agent"]
					_, _ = fmt.Fprintf(w, "%d %q %v %v", r.ProtoMajor, body, err, agent)
				}, c.speaks...)
				client, body, proto := l.client(l.token, true), "", c.plain
				if r.needsH2 {
					proto = c.rest
				}
				if r.make(at).Method == "POST" {
					body = "body"
				}
				for range 2 {
					res, err := client.Do(r.make(at))
					if err != nil {
						t.Fatal(err)
					}
					got, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if want := fmt.Sprintf("%d %q <nil> false", proto, body); string(got) != want || res.ProtoMajor != 2 {
						t.Errorf("%s, expected %s", got, want)
					}
					l.next() // its connection can be used again
				}
				if proto == 1 && len(c.speaks) == 1 && conns.Load() != 1 {
					t.Errorf("%d connections", conns.Load())
				}
			})
		}
	}
}

// TestUpstreamDiesDuringAPauseOfAnH2Client is noticed at once when it speaks HTTP/1.1, and not at the tool's timeout.
func TestUpstreamDiesDuringAPauseOfAnH2Client(t *testing.T) {
	for _, length := range []int64{100, -1} {
		l, at, _ := choosy(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 4))
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, "http/1.1")
		in, out := io.Pipe()
		req := mustRequest("POST", at, in)
		req.ContentLength = length
		go func() { _, _ = io.WriteString(out, "part") }()
		client := l.client(l.token, true)
		client.Timeout = 4 * time.Second // the tool's is 5 s
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		if _ = res.Body.Close(); res.StatusCode != 502 {
			t.Errorf("length %d: status %d", length, res.StatusCode)
		}
		if rec := l.next(); rec.str("code") != "upstream_protocol" {
			t.Errorf("length %d: record %v", length, rec)
		}
		_ = out.Close()
	}
}

// TestHeadKeepsItsConnection: for net/http the answer to a HEAD is over when its header is sent, which is no reason to give the
// upstream's connection up.
func TestHeadKeepsItsConnection(t *testing.T) {
	l, at, conns := choosy(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush() // no length
	}, "h2", "http/1.1")
	client := l.client(l.token, true)
	for range 3 {
		res, err := client.Do(mustRequest("HEAD", at, nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		l.next()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
