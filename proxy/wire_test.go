package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// route is one of the ways in which a request reaches the forwarding path.
type route struct {
	name, scheme, host string
	h2                 bool
}

var routes = []route{
	{"plain", "http", "plain.ok.test", false},
	{"intercepted h1", "https", "bound.ok.test", false},
	{"intercepted h2", "https", "bound.ok.test", true},
}

// allowed returns the entry of the manifest's allowlist that begins so.
func (f *labFiles) allowed(prefix string) string {
	name := f.manifest[strings.Index(f.manifest, prefix):]
	return name[:strings.IndexByte(name, '"')]
}

// overRoutes runs a test once per route, each with a lab of its own.
func overRoutes(t *testing.T, test func(t *testing.T, l *lab, r route), options ...labOption) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) { test(t, newLab(t, options...), r) })
	}
}

func (l *lab) on(r route, path string) string { return l.url(r.scheme, r.host, path) }

// do sends a request over a route with a stock client.
func (l *lab) do(r route, req *http.Request) *http.Response {
	l.t.Helper()
	res, err := l.client(l.token, r.h2).Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// wire is an h1 connection that speaks by hand to the place of a route.
type wire struct {
	net.Conn
	t     testing.TB
	r     *bufio.Reader
	base  string // before the path in a request line
	first string // header lines that each request needs
}

// wire opens a connection over an h1 route. host:port may be given for another place.
func (l *lab) wire(r route, place string) *wire {
	l.t.Helper()
	if place == "" {
		place = r.host + ":" + port(l.plain)
		if r.scheme == "https" {
			place = l.target(r.host)
		}
	}
	if r.scheme == "http" {
		c := l.dial()
		return &wire{c, l.t, bufio.NewReader(c), "http://" + place, "Host: " + place + "\r\nProxy-Authorization: " + l.basic(l.token) + "\r\n"}
	}
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	host, _, _ := net.SplitHostPort(place)
	tc := tls.Client(l.connectTo(place, ""), &tls.Config{RootCAs: roots, ServerName: host})
	if err := tc.Handshake(); err != nil {
		l.t.Fatal(err)
	}
	return &wire{tc, l.t, bufio.NewReader(tc), "", "Host: " + place + "\r\n"}
}

// send writes a request: method, path, version, header lines with their ends, body.
func (w *wire) send(method, path, version, header, body string) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w, "%s %s%s %s\r\n%s%s\r\n%s", method, w.base, path, version, w.first, header, body); err != nil {
		w.t.Fatal(err)
	}
}

// response reads the next response, informational ones included, but not its body.
func (w *wire) response() *http.Response {
	w.t.Helper()
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		w.t.Fatalf("no response: %v", err)
	}
	return res
}

// ended reads until the connection ends, which must not be by the test's deadline.
func (w *wire) ended() (string, error) {
	w.t.Helper()
	b, err := io.ReadAll(w.r)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		w.t.Fatalf("the connection did not end; %q came", b)
	}
	return string(b), err
}

// eventually waits for what happens in other goroutines without a signal.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: still not so", what)
		}
	}
}

// settled returns how many goroutines there are once what idles is closed, for comparison by noLeak.
func (l *lab) settled() int {
	l.proxy.gates.Load().retire()
	n, same := runtime.NumGoroutine(), 0
	eventually(l.t, "a steady number of goroutines", func() bool {
		now := runtime.NumGoroutine()
		if now != n {
			n, same = now, 0
		}
		same++
		return same > 10
	})
	return n
}

// noLeak fails when more than a few goroutines are left of what the test did many times since before was taken.
func (l *lab) noLeak(before int) {
	l.t.Helper()
	last := 0
	defer func() {
		if l.t.Failed() {
			buf := make([]byte, 1<<20)
			l.t.Logf("%d goroutines, %d before:\n%s", last, before, buf[:runtime.Stack(buf, true)])
		}
	}()
	eventually(l.t, "goroutines gone", func() bool {
		l.proxy.gates.Load().retire()
		last = runtime.NumGoroutine()
		return last <= before+3
	})
}
