package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFleet takes three sidecars through what a responder does: drill, revoke, look, restore, and a revocation that one of
// them does not hear.
func TestFleet(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	p := newPlane(t)
	token := w.task(t, "user:alice")
	one, two, three := p.sidecar(t, w, "one"), p.sidecar(t, w, "two"), p.sidecar(t, w, "three")
	watched := p.watch(t)

	ends := map[string]<-chan error{
		"the stream": ending(openStream(t, w, one, token)), "the tunnel": ending(openTunnel(t, w, one, token)),
		"the WebSocket": ending(openSocket(t, w, one, token)), "the other sidecar's stream": ending(openStream(t, w, two, token)),
	}
	p.must(t, 0, []string{"drilled drill-", "acknowledged by 3 of 3 sidecars"}, "drill", "--reason", "monday")
	for what, end := range ends {
		select {
		case err := <-end:
			t.Fatalf("the drill has cut %s: %v", what, err)
		default:
		}
	}

	p.must(t, 0, []string{"revoked stop at revision 2", "acknowledged by 3 of 3 sidecars, the last after .*; 4 running calls cut"},
		"revoke", "--tool", "orders_reader", "--id", "stop", "--reason", "leaked partner key", "--yes")
	for what, end := range ends {
		wasCut(t, what, end)
	}
	for _, s := range []*sidecar{one, two, three} { // no waiting: all have acknowledged
		if got := connect(t, w, s, token); got.status != http.StatusForbidden || !strings.Contains(got.body, `"code":"revoked"`) || !strings.Contains(got.body, "leaked partner key") {
			t.Errorf("a new call: %d %s", got.status, got.body)
		}
	}
	p.must(t, 0, []string{`stop +tool=orders_reader +leaked partner key +admin `}, "list")
	p.must(t, 0, []string{`live +shop/one +2 `, `live +shop/two +2 `, `live +shop/three +2 `}, "sidecars")
	p.must(t, 0, []string{`at revision 2`, `3 live, 0 silent, 0 leaving; 0 behind, 0 refuse`}, "status")

	p.must(t, 0, []string{"restored stop at revision 3", "acknowledged by 3 of 3"}, "restore", "stop", "--reason", "replaced")
	for _, s := range []*sidecar{one, two, three} {
		if !allowed(t, w, s, token) {
			t.Error("a call is refused after the restore")
		}
	}
	p.must(t, 0, []string{"nothing is revoked"}, "list")

	checkSilent(t, w, p, three, token)
	export := write(t, t.TempDir(), "log.ndjson", p.must(t, 0, nil, "export"))
	p.must(t, 0, []string{"4 entries verified", "1 in force"}, "verify", export, "--public-key", p.publicKey)
	for _, text := range []string{"drill drill-", "revoke stop tool=orders_reader by admin: leaked partner key", "revision 2: 3 of 3 sidecars", "restore stop"} {
		eventually(t, "watch says "+text, func() bool { return strings.Contains(watched.String(), text) })
	}
	one.stop(t)
	if count(one.records(t, ordersHost), func(r record) bool { return r.Code == "revoked" && r.Decision == "allow" && r.RevocationID == "stop" }) == 0 {
		t.Error("no record says that a running call was cut by it")
	}
	eventually(t, "who leaves is not missed", func() bool { return strings.Contains(p.run(t, "sidecars").out, "leaving  shop/one") })
}

// checkSilent: a sidecar that does not acknowledge is named, and obeys as soon as it hears.
func checkSilent(t *testing.T, w *world, p *plane, s *sidecar, token string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn)
	p.must(t, 1, []string{"revoked again at revision 4", "acknowledged by 2 of 3 sidecars", `silent: shop/three, last heard \S+, at revision 3`},
		"revoke", "--tool", "orders_reader", "--id", "again", "--reason", "drill", "--yes", "--timeout", "1s")
	goOn()
	eventually(t, "it obeys when it wakes", func() bool { return connect(t, w, s, token).status == http.StatusForbidden })
	p.must(t, 0, []string{"revoked again already at revision 4", "acknowledged by 3 of 3 sidecars"},
		"revoke", "--tool", "orders_reader", "--id", "again", "--reason", "drill", "--yes")
}

// watch collects what `killswitch watch` prints from now on.
func (p *plane) watch(t *testing.T) *lockedBuffer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := p.command(ctx, "watch", "--since", "0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out lockedBuffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	return &out
}

// ending returns how reading ends.
func ending(r io.Reader) <-chan error {
	end := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, r); end <- err }()
	return end
}

func wasCut(t *testing.T, what string, end <-chan error) {
	t.Helper()
	select {
	case err := <-end:
		if err == nil {
			t.Errorf("%s looks complete to its client", what)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("%s runs on", what)
	}
}

// connect asks for an intercepted tunnel and returns the proxy's answer.
func connect(t *testing.T, w *world, s *sidecar, token string) answer {
	t.Helper()
	_, _, a := dialTunnel(t, w, s, token)
	return a
}

func dialTunnel(t *testing.T, w *world, s *sidecar, token string) (net.Conn, *bufio.Reader, answer) {
	t.Helper()
	conn, err := net.Dial("tcp", s.tool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	authority := net.JoinHostPort(ordersHost, w.up.port)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", authority, authority, token); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReaderSize(conn, 16)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	a := answer{status: res.StatusCode, header: res.Header}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(r, max(0, res.ContentLength)))
		a.body = string(b)
	}
	return conn, r, a
}

// openSocket returns a WebSocket through an intercepted tunnel.
func openSocket(t *testing.T, w *world, s *sidecar, token string) io.Reader {
	t.Helper()
	conn, _, a := dialTunnel(t, w, s, token)
	if a.status != http.StatusOK {
		t.Fatalf("CONNECT: %d", a.status)
	}
	c := tls.Client(conn, &tls.Config{ServerName: ordersHost, RootCAs: roots(t, s.caFile), NextProtos: []string{"http/1.1"}})
	_, err := fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", ordersHost, w.up.port)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the WebSocket: %v, %v", res, err)
	}
	return r
}
