package signals

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a Revoker that takes its time.
type slow struct{ Revoker }

func (slow) Revoke(ctx context.Context, _ Request) error {
	select {
	case <-time.After(9 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// single is a listener with one connection.
type single struct {
	net.Listener
	conn   chan net.Conn
	closed chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *single) Close() error { close(s.closed); return nil }

// TestTime: a body has bodyTime, so that no sender keeps the others out, and what is done with it has more.
func TestTime(t *testing.T) {
	w := newWorld(t, nil)
	alert := `{"version":"4","alerts":[` +
		`{"status":"firing","labels":{"toolgate_tool":"a"},"startsAt":"2026-11-29T10:00:00Z","fingerprint":"a"},` +
		`{"status":"firing","labels":{"toolgate_tool":"b"},"startsAt":"2026-11-29T10:00:00Z","fingerprint":"b"}]}`
	w.r.o.Revoker = slow{}
	for name, tc := range map[string]struct {
		path, media, body string
		missing           int // bytes of the body that are never sent
		status            int
		took              time.Duration
	}{
		"a slow event":   {"/v1/signals/idp", "application/secevent+jwt", "x", 1, http.StatusServiceUnavailable, bodyTime},
		"slow alerts":    {"/v1/alerts/am", "application/json", "{", 1, http.StatusServiceUnavailable, bodyTime},
		"a slow revoker": {"/v1/alerts/am", "application/json", alert, 0, http.StatusOK, 18 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				ln := &single{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
				ln.conn <- far
				s := &http.Server{Handler: w.r.Handler()}
				go func() { _ = s.Serve(ln) }()
				defer func() { _, _ = near.Close(), s.Close() }()
				began := time.Now()
				_, err := fmt.Fprintf(near, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
					tc.path, pushToken, tc.media, len(tc.body)+tc.missing, tc.body)
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				if took := time.Since(began); res.StatusCode != tc.status || took != tc.took {
					t.Errorf("status %d after %s", res.StatusCode, took)
				}
			})
		})
	}
}
