//go:build linux

package cases

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func loadCases() []replay {
	return []replay{
		{"LOD-01", "slow headers; envoy edge best practices",
			"1,000 clients that send half a request line, beside normal calls", "each is cut at the header timeout; normal calls all succeed", slowHeaders},
		{"LOD-02", "CVE-2026-26999, CVE-2026-22045 (traefik)",
			"500 tunnels that stop after half a TLS hello", "each is cut at the header timeout; descriptors go", stalledHandshakes},
		{"LOD-03", "CVE-2026-56853 (Go net/http)",
			"500 connections that send the beginning of HTTP/2's preface", "each is cut at the header timeout", stalledPrefaces},
		{"LOD-07", "CVE-2023-39325 (Go net/http)",
			"up to 100,000 streams of HTTP/2 that are reset at once", "the connection is closed or slowed down; other callers are served; goroutines go", rapidReset},
		{"LOD-08", "CVE-2023-45288 (Go net/http)",
			"CONTINUATION frames without end", "the connection is closed early; memory stays", continuations},
		{"LOD-10", "stripe/smokescreen#284",
			"more tunnels of one tenant than the limit, beside requests of another", "503, or 429 at the tenant's limit, with a code for what is too much; the requests are served, and tunnels while there is room", tunnelLimit},
		{"LOD-11", "stripe/smokescreen#278",
			"1,000 requests in turn to one upstream", "ten connections upstream at the most", reuse},
		{"LOD-13", "stripe/smokescreen#256",
			"metrics that are read without pause under load", "no error, and no race where the detector is built in", scraped},
	}
}

// stalled opens n connections, lets each send something that is not whole, and returns when the proxy has ended all of
// them. It fails the test if that takes longer than the header timeout and a half.
func stalled(t *testing.T, w *world, n int, begin func() *asker) {
	t.Helper()
	descriptors := w.descriptors(t)
	conns := make([]*asker, n)
	for i := range conns {
		conns[i] = begin()
	}
	began := time.Now()
	for _, a := range conns {
		for { // an answer may come before the end
			if _, err := a.r.ReadByte(); err != nil {
				if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
					t.Fatal("a connection is still open")
				}
				break
			}
		}
		_ = a.Close()
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("it took %s with a header timeout of 2 s", d)
	}
	eventually(t, "descriptors are back", func() bool { return w.descriptors(t) <= descriptors+5 })
}

func slowHeaders(t *testing.T, w *world) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			began := time.Now()
			w.get(t, "http://api.ok.test/").is(t, "a normal call", http.StatusOK)
			if d := time.Since(began); d > 1500*time.Millisecond { // less than the header timeout, more than a busy machine
				t.Errorf("a normal call took %s", d)
			}
		}
	})
	stalled(t, w, 1000, func() *asker { a := w.dial(t); a.send(t, "GET http://api"); return a })
	done.Store(true)
	wg.Wait()
}

func stalledHandshakes(t *testing.T, w *world) {
	hello := clientHello(t)
	stalled(t, w, 500, func() *asker { a := w.open(t, "api.ok.test:443"); a.send(t, hello[:len(hello)/2]); return a })
	w.silent(t)
}

// clientHello is the first flight of a TLS client.
func clientHello(t *testing.T) string {
	t.Helper()
	near, far := net.Pipe()
	go func() { _ = tls.Client(near, &tls.Config{ServerName: "api.ok.test"}).Handshake() }()
	buf := make([]byte, 8192)
	n, err := far.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	return string(buf[:n])
}

func stalledPrefaces(t *testing.T, w *world) {
	stalled(t, w, 250, func() *asker { a := w.dial(t); a.send(t, "PRI * HT"); return a })
	stalled(t, w, 250, func() *asker { a := w.open(t, "api.ok.test:443"); a.send(t, "PRI * HT"); return a })
}

func rapidReset(t *testing.T, w *world) {
	goroutines, memory := w.goroutines(t), w.metric(t, "process_resident_memory_bytes", "")
	h := w.h2(t, "api.ok.test:443")
	cut := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, h.conn.r)
		close(cut)
	}()
	earlier := len(w.wire.dials())
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			w.get(t, "http://api.ok.test/").is(t, "another caller", http.StatusOK)
		}
	})
	_ = h.conn.SetDeadline(time.Now().Add(5 * time.Second)) // what is slowed down need not be waited for
	sent := 0
	for ; sent < many(100000); sent++ {
		stream := uint32(2*sent + 1)
		fields := h.fields(":method", "GET", ":scheme", "https", ":authority", "api.ok.test", ":path", "/")
		if h.frame.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fields, EndStream: true, EndHeaders: true}) != nil {
			break
		}
		if h.frame.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
			break
		}
	}
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Errorf("%d streams were taken, and the connection is open", sent)
	}
	_ = h.conn.Close()
	t.Logf("%d streams were taken", sent)
	done.Store(true)
	wg.Wait()
	began := time.Now()
	if n := len(slices.DeleteFunc(w.wire.dials()[earlier:], func(to netip.AddrPort) bool { return to.Port() != 443 })); n > 2000 {
		t.Errorf("%d connections were made for nobody", n)
	}
	eventually(t, "goroutines are back", func() bool { return w.goroutines(t) <= goroutines+20 })
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("recovery took %s", d)
	}
	if grown := w.metric(t, "process_resident_memory_bytes", "") - memory; grown > 128<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}

func continuations(t *testing.T, w *world) {
	memory := w.metric(t, "process_resident_memory_bytes", "")
	h := w.h2(t, "api.ok.test:443")
	go func() { _, _ = io.Copy(io.Discard, h.conn.r) }()
	fields := h.fields(":method", "GET", ":scheme", "https", ":authority", "api.ok.test", ":path", "/endless")
	if err := h.frame.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields, EndStream: true}); err != nil {
		t.Fatal(err)
	}
	const frames = 20000
	value := strings.Repeat("v", 4000)
	sent := 0
	for ; sent < frames; sent++ {
		if h.frame.WriteContinuation(1, false, h.fields(fmt.Sprintf("x-%d", sent), value)) != nil {
			break
		}
	}
	if sent == frames {
		t.Errorf("all %d frames were taken", sent)
	}
	if grown := w.metric(t, "process_resident_memory_bytes", "") - memory; grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	for _, a := range w.up.arrivals() { // among which may be late ones of the case before
		if a.uri == "/endless" {
			t.Error("the request was carried out")
		}
	}
}

func tunnelLimit(t *testing.T, w *world) {
	const limit = 50
	limited := w.lab.world(t, limits(fmt.Sprintf("{maxTunnels: %d, drain: 1s}", limit)))
	for range limit {
		limited.open(t, "a.wild.test:443")
	}
	for i := range 100 {
		for _, host := range []string{"a.wild.test:443", "api.ok.test:443"} {
			got := limited.connect(t, host)
			got.is(t, fmt.Sprint("tunnel ", limit+i), http.StatusServiceUnavailable)
			if got.code != "overloaded" {
				t.Errorf("code %q", got.code)
			}
		}
		other := dialProxy(t, limited.t2)
		other.send(t, "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: "+basic(limited.tokenB)+"\r\nConnection: close\r\n\r\n")
		other.read(t, "GET").is(t, "a request of the other tenant", http.StatusOK)
	}
	tenantLimit(t, w)
}

// tenantLimit: one tenant at its limit leaves another the tunnels of the same tool.
func tenantLimit(t *testing.T, w *world) {
	const limit = 20
	limited := w.lab.world(t, limits(fmt.Sprintf("{maxTunnels: 50, maxTunnelsPerTenant: %d, drain: 1s}", limit)))
	for range limit {
		limited.open(t, "a.wild.test:443")
	}
	got := limited.connect(t, "a.wild.test:443")
	got.is(t, "a tunnel too many", http.StatusTooManyRequests)
	if got.code != "too_many_calls" {
		t.Errorf("code %q", got.code)
	}
	other := dialProxy(t, limited.t2)
	other.send(t, "CONNECT api.ok.test:443 HTTP/1.1\r\nHost: api.ok.test:443\r\nProxy-Authorization: "+basic(limited.tokenB)+"\r\n\r\n")
	other.read(t, "CONNECT").is(t, "a tunnel of the other tenant", http.StatusOK)
}

func reuse(t *testing.T, w *world) {
	a := w.inside(t, "api.ok.test:443")
	earlier := len(w.wire.dials()) // other cases' calls may still be under way, to other ports
	for range 1000 {
		a.send(t, "GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
		if got := a.read(t, "GET"); got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
	}
	dials := slices.DeleteFunc(w.wire.dials()[earlier:], func(to netip.AddrPort) bool { return to.Port() != 443 })
	if len(dials) > 10 {
		t.Errorf("%d connections: %v", len(dials), dials)
	}
}

func scraped(t *testing.T, w *world) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				if status, _ := w.adminGet("/metrics"); status != http.StatusOK {
					t.Errorf("metrics: status %d", status)
				}
			}
		})
	}
	c := w.client(t, w.t1, w.tokenA, true)
	for i := range many(1000) {
		res, err := c.Get([]string{"https://api.ok.test/", "http://api.ok.test/"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
		w.connect(t, "evil.test:443").is(t, "a denied one", http.StatusForbidden)
	}
	done.Store(true)
	wg.Wait()
}
