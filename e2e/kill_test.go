package e2e

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const revocation = `apiVersion: toolgate/v1
kind: Revocations
revocations:
  - id: e2e-stop
    selector: {tool: [orders_reader], tenant: acme}
    reason: end-to-end test
    by: responder@example.com
    at: 2026-01-01T00:00:00Z
`

// TestKillSwitch measures from the moment that the revocations file is replaced to the moment that the tool's side of a
// running stream and of an idle tunnel is gone.
func TestKillSwitch(t *testing.T) {
	const limit = 100 * time.Millisecond
	w := newWorld(t, "", devAuthority)
	s := w.start(t)
	token := w.task(t, "user:alice")
	good := false
	for attempt := 1; attempt <= 3 && !good; attempt++ {
		stream, tunnel := measureCut(t, w, s, token)
		t.Logf("attempt %d: stream cut after %v, idle tunnel after %v", attempt, stream, tunnel)
		good = max(stream, tunnel) <= limit
		eventually(t, "the upstream's side of the stream is gone", func() bool { return w.up.streams.Load() == 0 })
		checkRevoked(t, w, s, token)
		w.setRevocations(t, noRevocation)
		eventually(t, "calls are allowed again", func() bool { return allowed(t, w, s, token) })
	}
	if !good {
		t.Errorf("no attempt was within %v", limit)
	}
	s.stop(t)
	for _, host := range []string{ordersHost, plainHost} {
		cut := func(r record) bool {
			return r.Code == "revoked" && r.Decision == "allow" && r.RevocationID == "e2e-stop"
		}
		if count(s.records(t, host), cut) == 0 {
			t.Errorf("no record says that a running call to %s was revoked", host)
		}
	}
}

// setRevocations replaces the file in one step, as a mounted ConfigMap does.
func (w *world) setRevocations(t *testing.T, content string) time.Time {
	t.Helper()
	next := write(t, w.dir, "revocations.next", content)
	began := time.Now()
	if err := os.Rename(next, filepath.Join(w.dir, "revocations.yaml")); err != nil {
		t.Fatal(err)
	}
	return began
}

// measureCut opens an intercepted event stream and a blind tunnel, revokes, and returns how long each of them lived on.
func measureCut(t *testing.T, w *world, s *sidecar, token string) (stream, tunnel time.Duration) {
	t.Helper()
	events := openStream(t, w, s, token)
	idle := openTunnel(t, w, s, token)
	type end struct {
		at  time.Time
		err error
	}
	streamEnd, tunnelEnd := make(chan end, 1), make(chan end, 1)
	go func() { _, err := io.Copy(io.Discard, events); streamEnd <- end{time.Now(), err} }()
	go func() { _, err := idle.Read(make([]byte, 1)); tunnelEnd <- end{time.Now(), err} }()
	began := w.setRevocations(t, revocation)
	deadline := time.After(10 * time.Second)
	for range 2 {
		select {
		case e := <-streamEnd:
			stream = e.at.Sub(began)
			if e.err == nil {
				t.Error("the cut stream looks complete to its client")
			}
		case e := <-tunnelEnd:
			tunnel = e.at.Sub(began)
			if e.err == nil {
				t.Error("the tunnel carried a byte")
			}
		case <-deadline:
			t.Fatalf("running calls were not cut within 10 s (stream %v, tunnel %v)", stream, tunnel)
		}
	}
	return stream, tunnel
}

// openStream returns the body of a stream whose first event has arrived.
func openStream(t *testing.T, w *world, s *sidecar, token string) io.Reader {
	t.Helper()
	res, err := toolClient(t, proxyURL(s.tool, token), s.caFile).Get(w.up.url(ordersHost, "/sse"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "data: first\n" {
		t.Fatalf("%d, first line %q, %v", res.StatusCode, line, err)
	}
	return r
}

// openTunnel returns a TLS connection to the upstream, certificate and all, through a passthrough tunnel.
func openTunnel(t *testing.T, w *world, s *sidecar, token string) *tls.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.tool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	authority := net.JoinHostPort(plainHost, w.up.port)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", authority, authority, token); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil) // the upstream says nothing before the client does
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %v, %v", res, err)
	}
	c := tls.Client(conn, &tls.Config{ServerName: plainHost, RootCAs: roots(t, filepath.Join(w.dir, "upstream-ca.pem"))})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkRevoked makes a new call on each path.
func checkRevoked(t *testing.T, w *world, s *sidecar, token string) {
	t.Helper()
	for host, ca := range map[string]string{ordersHost: s.caFile, plainHost: filepath.Join(w.dir, "upstream-ca.pem")} {
		res, err := toolClient(t, proxyURL(s.tool, token), ca).Get(w.up.url(host, "/v1/orders/42"))
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("a new call to %s was answered %d", host, res.StatusCode)
		} else if got := errors.Unwrap(err); got == nil || got.Error() != "Forbidden: revoked" {
			t.Errorf("a new call to %s: %v", host, err)
		}
	}
}

func allowed(t *testing.T, w *world, s *sidecar, token string) bool {
	t.Helper()
	res, err := toolClient(t, proxyURL(s.tool, token), s.caFile).Get(w.up.url(ordersHost, "/v1/orders/42"))
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}
