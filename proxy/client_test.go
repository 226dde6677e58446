package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// TestUploadsThatBreakOff: the upstream must not take what it got for the whole.
func TestUploadsThatBreakOff(t *testing.T) {
	for name, c := range map[string]struct{ header, sent string }{
		"length":  {"Content-Length: 100\r\n", "some"},
		"chunked": {"Transfer-Encoding: chunked\r\n", "4\r\nsome\r\n"},
	} {
		for _, r := range routes[:2] {
			t.Run(name+" "+r.name, func(t *testing.T) {
				l := newLab(t)
				arrived, ended := make(chan struct{}), make(chan error, 1)
				l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
					_, _ = io.ReadFull(req.Body, make([]byte, 4))
					close(arrived)
					_, err := io.Copy(io.Discard, req.Body)
					ended <- err
				})
				w := l.wire(r, "")
				w.send("POST", "/", "HTTP/1.1", c.header, c.sent)
				<-arrived
				_ = w.Close()
				if err := <-ended; err == nil {
					t.Error("the upstream saw a whole request")
				}
				if rec := l.next(); rec.str("error_class") != "client_gone" && rec.str("error_class") != "client_body" {
					t.Errorf("record %v", rec)
				}
				l.noMore()
			})
		}
	}
}

func TestUploadsThatBreakOffOverH2(t *testing.T) {
	l := newLab(t)
	arrived, ended := make(chan struct{}), make(chan error, 1)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadFull(req.Body, make([]byte, 4))
		close(arrived)
		_, err := io.Copy(io.Discard, req.Body)
		ended <- err
	})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "some")
		<-arrived
		_ = pw.CloseWithError(errors.New("broke off"))
	}()
	req, _ := http.NewRequest("POST", l.on(routes[2], "/"), pr)
	if res, err := l.client(l.token, true).Do(req); err == nil {
		t.Errorf("status %d", res.StatusCode)
	}
	if err := <-ended; err == nil {
		t.Error("the upstream saw a whole request")
	}
	if rec := l.next(); rec.str("error_class") != "client_gone" && rec.str("error_class") != "client_body" {
		t.Errorf("record %v", rec)
	}
	l.noMore()
}

// TestMalformedBodyIsTheClients: it is told so, and the upstream is not blamed.
func TestMalformedBodyIsTheClients(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) })
	w := l.wire(routes[1], "")
	w.send("POST", "/", "HTTP/1.1", "Transfer-Encoding: chunked\r\n", "4\r\nsome\r\nzz\r\n")
	if res := w.response(); res.StatusCode != 400 || !res.Close || res.Header.Get("Toolgate-Denial") != "bad_request" {
		t.Errorf("status %d, %v, close %v", res.StatusCode, res.Header, res.Close)
	}
	if rec := l.next(); rec.str("error_class") != "client_body" || rec.str("decision") != "allow" || rec.str("code") != "bad_request" {
		t.Errorf("record %v", rec) // its head was let pass and has arrived
	}
}

// TestSilentUploads: a client that stops in the middle of its body and stays must not keep a call from ending, be it by the
// tool's timeout or by the kill switch. net/http's transport waits for its read of the body.
func TestSilentUploads(t *testing.T) {
	for _, by := range []Code{ToolTimeout, Revoked} {
		for _, r := range routes {
			t.Run(string(by)+" "+r.name, func(t *testing.T) {
				timeout := "timeoutMs: 30000"
				if by == ToolTimeout {
					timeout = "timeoutMs: 300"
				}
				l := newLab(t, replaced(t, "timeoutMs: 30000", timeout))
				arrived := make(chan struct{}, 10)
				l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
					_, _ = io.ReadFull(req.Body, make([]byte, 4))
					arrived <- struct{}{}
					_, _ = io.Copy(io.Discard, req.Body)
				})
				pr, pw := io.Pipe()
				defer func() { _ = pw.Close() }()
				go func() { _, _ = io.WriteString(pw, "some") }()
				req, _ := http.NewRequest("POST", l.on(r, "/"), pr)
				go func() {
					<-arrived
					if by == Revoked {
						l.revoke(killswitch.Selector{Tool: []string{"t1"}})
					}
				}()
				type result struct {
					res *http.Response
					err error
				}
				done := make(chan result, 1)
				go func() {
					res, err := l.client(l.token, r.h2).Do(req)
					done <- result{res, err}
				}()
				if rec := l.next(); rec.str("code") != string(by) { // while the client is silent
					t.Errorf("record %v", rec)
				}
				if by == Revoked && r.scheme == "https" { // the tunnel was cut
					_ = pw.Close()
					<-done
					return
				}
				d := <-done
				if d.err != nil || d.res.Header.Get("Toolgate-Denial") != string(by) {
					t.Fatalf("the client got %v %v", d.res, d.err)
				}
				_ = d.res.Body.Close()
			})
		}
	}
}

// TestClientThatStopsReading is let go, with the upstream's connection, and is not called the upstream's failure.
func TestClientThatStopsReading(t *testing.T) {
	for _, r := range routes[:2] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
			gone := make(chan struct{})
			l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
				defer close(gone)
				chunk := bytes.Repeat([]byte("x"), 64<<10)
				for {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})
			w := l.wire(r, "")
			w.send("GET", "/", "HTTP/1.1", "", "")
			w.response()
			<-gone
			if rec := l.next(); rec.str("error_class") != "client_gone" || rec.str("code") != "" {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestRevocationOfTunnelAndCall is recorded as one, whichever of the two is cut first.
func TestRevocationOfTunnelAndCall(t *testing.T) {
	l := newLab(t)
	arrived := make(chan struct{})
	l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	for i := range 20 {
		l.revoke()
		token := l.mint(map[string]any{"run_id": fmt.Sprint("run-", i)})
		done := make(chan string, 1)
		go func() {
			status, _, err := get(l.client(token, i%2 == 0), l.on(routes[1], "/"))
			done <- fmt.Sprint(status, err)
		}()
		<-arrived
		l.revoke(killswitch.Selector{Run: []string{fmt.Sprint("run-", i)}})
		if end := <-done; end == "200<nil>" || end == "200 <nil>" { // 403 where the header was not sent yet
			t.Error("a clean end")
		}
		if rec := l.next(); rec.str("code") != "revoked" || rec.str("error_class") != "cut" {
			t.Errorf("record %v", rec)
		}
	}
}

// TestLateEndIsNotBelieved: the upstream's regular end, read after the call was ended, may be its reaction to that.
func TestLateEndIsNotBelieved(t *testing.T) {
	l := newLab(t)
	r := httptest.NewRequest("GET", "http://plain.ok.test/", nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStalled)
	dog := watch(cancel, time.Minute, time.Minute, func() {})
	defer dog.stop()
	c := l.proxy.begin("tool", "request")
	defer c.finish()
	c.ctx = ctx
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || c.rec.Code != string(UpstreamTimeout) {
			t.Errorf("recovered %v, code %q", v, c.rec.Code)
		}
	}()
	to := newClient(httptest.NewRecorder(), r, time.Minute)
	c.respond(ctx, to, &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader("part"))}, dog, nil)
	t.Error("the end was believed")
}

// TestTunnelsRevocationIsTheCause, when its effect on the client's connection is noticed before the call's own revocation.
func TestTunnelsRevocationIsTheCause(t *testing.T) {
	outer, trip := context.WithCancelCause(context.Background())
	inner, cancel := context.WithCancel(context.Background())
	c := &call{within: &tunnel{connect: &call{ctx: outer}}}
	if cause := c.cause(inner); cause != nil {
		t.Errorf("running: %v", cause)
	}
	cancel()
	if cause := c.cause(inner); cause != context.Canceled {
		t.Errorf("the client is gone: %v", cause)
	}
	tripped := &killswitch.Tripped{}
	trip(tripped)
	if cause := c.cause(inner); cause != tripped {
		t.Errorf("the tunnel is revoked: %v", cause)
	}
}

// TestFailuresLeaveNothingBehind repeats what hangs and breaks, and counts goroutines.
func TestFailuresLeaveNothingBehind(t *testing.T) {
	l := newLab(t, replaced(t, "timeoutMs: 30000", "timeoutMs: 50"))
	l.mux.HandleFunc("/hang", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	l.mux.HandleFunc("/break", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 8192))
		panic(http.ErrAbortHandler)
	})
	before := 0
	clients := map[bool]*http.Client{false: l.client(l.token, false), true: l.client(l.token, true)}
	for range 6 {
		for _, r := range routes {
			client := clients[r.h2]
			for _, path := range []string{"/hang", "/break"} {
				_, _, _ = get(client, l.on(r, path))
				l.next()
			}
			client.CloseIdleConnections()
		}
		if before == 0 {
			before = l.settled()
		}
	}
	l.noLeak(before)
	l.noMore()
}
