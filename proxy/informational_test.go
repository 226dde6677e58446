package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// TestEarlyHintsAreRelayedOnce, and do not become part of the final header.
func TestEarlyHintsAreRelayedOnce(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.Header().Set("X-Echo", req.Header.Get("Authorization"))
			w.Header().Set("Toolgate-Denial", "revoked")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Del("X-Echo")
			_, _ = io.WriteString(w, "done")
		})
		var hints []textproto.MIMEHeader
		req, _ := http.NewRequest("GET", l.on(r, "/"), nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code != 103 {
					t.Errorf("informational status %d", code)
				}
				hints = append(hints, h)
				return nil
			},
		}))
		res := l.do(r, req)
		if b, err := io.ReadAll(res.Body); string(b) != "done" || err != nil {
			t.Fatalf("%q %v", b, err)
		}
		if len(hints) != 1 || hints[0].Get("Link") == "" || hints[0].Get("Toolgate-Denial") != "" {
			t.Fatalf("hints %v", hints)
		}
		if echo := hints[0].Get("X-Echo"); r.scheme == "https" && echo != "Bearer [REDACTED:credential]" {
			t.Errorf("the hints echo the credential: %q", echo)
		}
		if res.Header.Get("Link") != "" {
			t.Error("the hint's header is in the final one")
		}
	})
}

// TestHintsWithoutEnd: net/http reads them for ever on behalf of who relays them.
func TestHintsWithoutEnd(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
				return
			}
		}
	})
	if status, body, err := get(l.client(l.token, false), "http://"+target+"/"); err != nil || status != 502 {
		t.Errorf("%d %q %v", status, body, err)
	}
	if rec := l.next(); rec.str("code") != "upstream_protocol" {
		t.Errorf("record %v", rec)
	}
}

// slowWriter is a client that takes its time over a hint, and notices when something else is written meanwhile.
type slowWriter struct {
	header  http.Header
	hinted  chan struct{}
	release chan struct{}
	busy    atomic.Bool
	overlap chan struct{}
	status  atomic.Int32
}

func (w *slowWriter) Header() http.Header              { return w.header }
func (w *slowWriter) Write(b []byte) (int, error)      { return len(b), nil }
func (w *slowWriter) SetWriteDeadline(time.Time) error { return nil }
func (w *slowWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *slowWriter) WriteHeader(status int) {
	if !w.busy.CompareAndSwap(false, true) {
		close(w.overlap)
		return
	}
	if status == http.StatusEarlyHints {
		close(w.hinted)
		<-w.release
	} else {
		w.status.Store(int32(status))
	}
	w.busy.Store(false)
}

// TestHintAndAnswerDoNotMix: a call that is given up while the upstream's reader writes a hint waits for the hint, and the
// hints that come later are dropped. The transport does neither; a writer used from two sides takes the process down.
func TestHintAndAnswerDoNotMix(t *testing.T) {
	gone := make(chan struct{})
	l, target := rawUpstream(t, func(c net.Conn) {
		request(c)
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		close(gone)
	})
	w := &slowWriter{header: http.Header{}, hinted: make(chan struct{}), release: make(chan struct{}), overlap: make(chan struct{})}
	r := httptest.NewRequest("GET", "http://"+target+"/", nil)
	r.Header.Set("Proxy-Authorization", l.basic(l.token))
	c := l.proxy.begin("tool", "request")
	done := make(chan struct{})
	go func() { defer close(done); c.serve(r.Context(), w, r, plainAsk(r)) }()
	<-w.hinted
	l.revoke(killswitch.Selector{Tool: []string{"t1"}})
	<-gone // the call was given up
	select {
	case <-w.overlap:
		t.Error("the answer was written over the hint")
	case <-time.After(50 * time.Millisecond):
	}
	close(w.release)
	<-done
	if w.status.Load() != 403 {
		t.Errorf("status %d", w.status.Load())
	}
	k := newClient(w, r, time.Minute)
	k.answer()
	if err := k.inform(http.StatusProcessing, http.Header{}); err != nil || w.status.Load() != 403 {
		t.Errorf("a late hint: %v, status %d", err, w.status.Load())
	}
	c.finish()
	l.next()
}

// TestUnwantedBodyIsNotRead: reading it would ask the client for it.
func TestUnwantedBodyIsNotRead(t *testing.T) {
	r := httptest.NewRequest("POST", "http://plain.ok.test/", strings.NewReader("body"))
	r.Header.Set("Expect", "100-Continue")
	for _, c := range []struct{ answered, asked, read bool }{{false, false, true}, {true, true, true}, {true, false, false}} {
		var b requestBody
		b.open(r)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b.begin(ctx, func() {})
		b.answered.Store(c.answered)
		b.asked.Store(c.asked)
		if n, _ := b.Read(make([]byte, 1)); (n == 1) != c.read {
			t.Errorf("%+v: %d bytes read", c, n)
		}
	}
}

// TestExpectContinue: the client is asked for its body when the upstream asks for it, and not when it answers without.
func TestExpectContinue(t *testing.T) {
	body := strings.Repeat("x", 100)
	for _, upstream := range []struct{ name, answer string }{
		{"refuses and stays", "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"},
		{"refuses and goes", "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"},
		{"asks", "HTTP/1.1 100 Continue\r\n\r\n"},
		{"never asks", ""}, // and waits for the body, for which the client is asked when a while has passed
		{"hints and asks", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"},
	} {
		t.Run(upstream.name, func(t *testing.T) {
			got := make(chan string, 1)
			l, target := rawUpstream(t, func(c net.Conn) {
				r := bufio.NewReader(c)
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if req.Header.Get("Expect") != "100-continue" {
					t.Errorf("the upstream got Expect %q", req.Header.Get("Expect"))
				}
				_, _ = io.WriteString(c, upstream.answer)
				b, _ := io.ReadAll(req.Body)
				got <- string(b)
				if string(b) == body {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
				_ = c.Close()
			})
			c := l.wire(routes[0], target)
			c.send("POST", "/", "HTTP/1.1", fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n", len(body)), "")
			res := c.response()
			if res.StatusCode == 103 {
				res = c.response()
			}
			if !strings.Contains(upstream.name, "asks") {
				if res.StatusCode != 413 && res.StatusCode != 417 || !res.Close {
					t.Errorf("the client got %d, close %v", res.StatusCode, res.Close)
				}
				if b := <-got; b != "" {
					t.Errorf("the upstream got a body: %q", b)
				}
				_, _ = c.ended()
				return
			}
			if res.StatusCode != 100 {
				t.Fatalf("the client got %d", res.StatusCode)
			}
			_, _ = io.WriteString(c, body)
			if res = c.response(); res.StatusCode != 200 {
				t.Errorf("the client got %d", res.StatusCode)
			}
			if b := <-got; b != body {
				t.Errorf("the upstream got %q", b)
			}
		})
	}
}

// TestAnswerToAnUnfinishedUpload arrives though the client sends nothing more, and the connection ends with it, so that
// what is left of the body is not taken for a request.
func TestAnswerToAnUnfinishedUpload(t *testing.T) {
	for name, c := range map[string]struct{ path, framing, sent string }{
		"early answer, length":  {"/early", "Content-Length: 500000", "some"},
		"early answer, chunked": {"/early", "Transfer-Encoding: chunked", "4\r\nsome\r\n"},
		"denial, length":        {"/denied", "Content-Length: 500000", "some"},
		"denial, short":         {"/denied", "Content-Length: 50", "some"},
		"denial, chunked":       {"/denied", "Transfer-Encoding: chunked", "4\r\nsome\r\n"},
	} {
		for _, r := range routes[:2] {
			t.Run(name+" "+r.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
					_ = http.NewResponseController(w).EnableFullDuplex()
					w.Header().Set("Connection", "close")
					http.Error(w, "too much", http.StatusRequestEntityTooLarge)
				})
				conn := l.wire(r, "")
				method, want := "POST", 413
				if c.path == "/denied" {
					method, want = "TRACE", 403
				}
				conn.send(method, c.path, "HTTP/1.1", c.framing+"\r\n", c.sent)
				res := conn.response()
				b, err := io.ReadAll(res.Body)
				if res.StatusCode != want || err != nil || len(b) == 0 || !res.Close {
					t.Errorf("%d %q %v, close %v", res.StatusCode, b, err, res.Close)
				}
				if rest, _ := conn.ended(); rest != "" {
					t.Errorf("then came %q", rest)
				}
			})
		}
	}
}

// TestShortRefusedBodyKeepsTheConnection: a refusal that costs the connection would make agents that retry pay twice.
func TestShortRefusedBodyKeepsTheConnection(t *testing.T) {
	l := newLab(t)
	c := l.wire(routes[1], "")
	for range 2 {
		c.send("TRACE", "/", "HTTP/1.1", "Content-Length: 4\r\n", "body")
		res := c.response()
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 403 || !bytes.Contains(b, []byte("method_not_allowed")) || res.Close {
			t.Errorf("%d %q, close %v", res.StatusCode, b, res.Close)
		}
	}
}
