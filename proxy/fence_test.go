package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The rules themselves are in e2e/cases, where netfilter is. Here the fence meets what they may do to its connections.

type dialing func(context.Context) (net.Conn, error)

func fails(err error) dialing { return func(context.Context) (net.Conn, error) { return nil, err } }

func connects(to net.Addr) dialing {
	return func(ctx context.Context) (net.Conn, error) { return dialPlain(ctx, to.String()) }
}

// testFence is a fence of as many families as there are pairs of what becomes of its connections. A nil one to the probe's address
// is turned around.
func testFence(t *testing.T, families ...[2]dialing) *Fence {
	t.Helper()
	f := &Fence{log: slog.New(slog.DiscardHandler)}
	f.state.Store(&fenceState{err: ErrFenceUnchecked})
	turned := map[netip.AddrPort]netip.AddrPort{} // by the listener's address
	dials := map[string]dialing{}
	for i, d := range families {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := &probePath{name: "family", listener: ln, loopback: ln.Addr().(*net.TCPAddr).AddrPort()}
		p.probe = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), p.loopback.Port())
		turned[p.loopback] = p.probe
		if d[1] == nil {
			d[1] = connects(ln.Addr())
		}
		dials[p.loopback.String()], dials[p.probe.String()] = d[0], d[1]
		f.paths = append(f.paths, p)
	}
	f.original = func(c *net.TCPConn) (netip.AddrPort, error) {
		return turned[c.LocalAddr().(*net.TCPAddr).AddrPort()], nil
	}
	f.dial = func(ctx context.Context, address string) (net.Conn, error) { return dials[address](ctx) }
	var accepting sync.WaitGroup
	for _, p := range f.paths {
		accepting.Go(func() { f.accept(p) })
	}
	t.Cleanup(func() { f.Close(); accepting.Wait() })
	return f
}

// listening accepts whatever comes, and reads it.
func listening(t *testing.T) net.Addr {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return ln.Addr()
}

func TestFenceCheck(t *testing.T) {
	refused, lost, unrouted := fails(syscall.ECONNREFUSED), fails(context.DeadlineExceeded), fails(syscall.ENETUNREACH)
	somebody := connects(listening(t))
	for name, c := range map[string]struct {
		families [][2]dialing
		want     error
	}{
		"in force":                         {[][2]dialing{{refused, nil}, {refused, nil}}, nil},
		"a family without a route":         {[][2]dialing{{refused, nil}, {refused, unrouted}}, nil},
		"no route at all":                  {[][2]dialing{{refused, unrouted}, {refused, unrouted}}, ErrFenceTurn},
		"no family":                        {nil, ErrFenceTurn},
		"no rules":                         {[][2]dialing{{somebody, lost}, {somebody, lost}}, ErrFenceOpen},
		"no rules for one family":          {[][2]dialing{{refused, nil}, {somebody, nil}}, ErrFenceOpen},
		"an empty table":                   {[][2]dialing{{lost, lost}, {lost, lost}}, ErrFenceSilent},
		"no redirection":                   {[][2]dialing{{refused, refused}, {refused, nil}}, ErrFenceTurn},
		"a connection that is lost":        {[][2]dialing{{refused, nil}, {refused, lost}}, ErrFenceTurn},
		"somebody else answers the probe":  {[][2]dialing{{refused, somebody}}, ErrFenceTurn},
		"unreachable is not the same here": {[][2]dialing{{unrouted, nil}}, ErrFenceSilent},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFence(t, c.families...)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if c.want == nil {
				ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
			}
			defer cancel()
			if err := f.test(ctx); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("found %v, expected %v", err, c.want)
			}
		})
	}
}

// TestFenceNonce: who reaches the fence's port while there are no rules does not make it believe that there are.
func TestFenceNonce(t *testing.T) {
	f := testFence(t, [2]dialing{fails(syscall.ECONNREFUSED), fails(syscall.ECONNREFUSED)})
	arrived := make(chan struct{})
	f.paths[0].await([nonceSize]byte{1}, arrived)
	for _, sent := range []string{strings.Repeat("\x00", nonceSize), strings.Repeat("x", 100), "short"} {
		conn, err := net.Dial("tcp", f.paths[0].loopback.String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, sent)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // until it is closed, which is after it was judged
		_ = conn.Close()
	}
	select {
	case <-arrived:
		t.Error("another's nonce counts")
	default:
	}
	if errors.Is(f.test(t.Context()), nil) {
		t.Error("in force")
	}
}

// TestFenceChecksAreOne: however many ask, the network is not tested more often than it takes.
func TestFenceChecksAreOne(t *testing.T) {
	var dials atomic.Int64
	f := testFence(t, [2]dialing{func(context.Context) (net.Conn, error) { dials.Add(1); return nil, syscall.ECONNREFUSED }, nil})
	if err := f.InForce(); !errors.Is(err, ErrFenceUnchecked) {
		t.Errorf("before the first check: %v", err)
	}
	began := time.Now()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if err := f.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most := 1 + int64(time.Since(began)/fenceFresh); dials.Load() > most {
		t.Errorf("%d tests, expected %d at most", dials.Load(), most)
	}
	if err := f.InForce(); err != nil {
		t.Error(err)
	}
}

// TestWithoutFence: while the fence is not in force every call is denied, names are not answered, and the sidecar is not ready.
func TestWithoutFence(t *testing.T) {
	l := newLab(t)
	f := testFence(t, [2]dialing{connects(listening(t)), nil})
	l.proxy.fence = f
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, false)
	status, body, err := get(client, l.url("http", "plain.ok.test", "/"))
	if err != nil || status != http.StatusServiceUnavailable || problemOf(t, body).Code != NotReady {
		t.Errorf("before the first check: %d %s %v", status, body, err)
	}
	if rec := l.next(); rec.str("code") != "not_ready" || rec.str("decision") != "deny" {
		t.Errorf("record %v", rec)
	}
	if status, body, err := get(http.DefaultClient, l.admin.URL+"/readyz"); err != nil || status != 503 || !strings.Contains(body, ErrFenceOpen.Error()) {
		t.Errorf("readyz: %d %s %v", status, body, err)
	}
	if _, body, _ := get(http.DefaultClient, l.admin.URL+"/metrics"); !strings.Contains(body, "toolgate_fence_in_force 0\n") {
		t.Error("no metric says so")
	}
	names := &stub{proxy: l.proxy, listener: "tool"}
	ask := func() int { return names.answer(new(dns.Msg), new(dns.Msg).SetQuestion("pass.ok.test.", dns.TypeA)) }
	if code := ask(); code != dns.RcodeServerFailure {
		t.Errorf("a name: %s", dns.RcodeToString[code])
	}
	f.state.Store(&fenceState{at: time.Now()})
	if status, body, err := get(client, l.url("http", "plain.ok.test", "/")); err != nil || status != http.StatusOK {
		t.Errorf("in force: %d %s %v", status, body, err)
	}
	if code := ask(); code != dns.RcodeSuccess {
		t.Errorf("a name: %s", dns.RcodeToString[code])
	}
}
