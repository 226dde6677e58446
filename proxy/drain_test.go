package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// drain begins a shutdown that ends when the test cuts it, or with the test. It returns when /readyz fails.
func (l *lab) drain() (cut func(), ended <-chan struct{}) {
	l.t.Helper()
	ctx, cut := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { l.proxy.Shutdown(ctx); close(done) }()
	waitUntil(l.t, func() bool {
		status, _, err := get(http.DefaultClient, l.admin.URL+"/readyz")
		return err == nil && status == 503
	})
	l.t.Cleanup(func() {
		cut()
		<-done
		l.proxy.tunnels = newRegistry(l.load().snapshot.Limits) // the lab shuts down once more
	})
	return cut, done
}

// held makes the upstream's answer begin, or not, and wait to be released.
func (l *lab) held(path, first string) (arrived <-chan struct{}, release chan struct{}) {
	at, release := make(chan struct{}, 8), make(chan struct{})
	l.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		if first != "" {
			_, _ = io.WriteString(w, first)
			_ = http.NewResponseController(w).Flush()
		}
		at <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "done")
	})
	return at, release
}

// TestDrainOfHTTP1: an idle connection ends, a running answer tells that its connection will, and ends whole.
func TestDrainOfHTTP1(t *testing.T) {
	for _, r := range routes[:2] {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			arrived, release := l.held("/slow", "")
			l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			idle, busy := l.wire(r, ""), l.wire(r, "")
			idle.send("GET", "/", "HTTP/1.1", "", "")
			if res := idle.response(); res.StatusCode != 200 || res.Close {
				t.Fatalf("%d %v", res.StatusCode, res.Header)
			}
			busy.send("GET", "/slow", "HTTP/1.1", "", "")
			<-arrived
			l.drain()
			if rest, _ := idle.ended(); rest != "" {
				t.Errorf("the idle connection got %q", rest)
			}
			close(release)
			res := busy.response()
			if body, err := io.ReadAll(res.Body); res.StatusCode != 200 || !res.Close || err != nil || string(body) != "done" {
				t.Errorf("%d %v %q %v", res.StatusCode, res.Header, body, err)
			}
			if rest, err := busy.ended(); rest != "" || err != nil {
				t.Errorf("%q %v", rest, err)
			}
		})
	}
}

// TestDrainOfHTTP2: the connection gets GOAWAY, and its stream ends whole.
func TestDrainOfHTTP2(t *testing.T) {
	l := newLab(t)
	arrived, release := l.held("/slow", "one")
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	tc := tls.Client(l.connectTo(l.target("bound.ok.test"), ""), &tls.Config{ServerName: "bound.ok.test", RootCAs: roots, NextProtos: []string{"h2"}})
	var away, read = make(chan struct{}), new(frameReader)
	read.on = func(h http2.FrameHeader) {
		if h.Type == http2.FrameGoAway {
			select {
			case <-away:
			default:
				close(away)
			}
		}
	}
	cc, err := h2Over(&spiedConn{Conn: tc, read: read})
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("GET", l.url("https", "bound.ok.test", "/slow"), nil)
	res, err := cc.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	_, ended := l.drain()
	<-away
	close(release)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "onedone" {
		t.Errorf("%q %v", body, err)
	}
	<-ended
	if rec := l.next(); rec.str("error_class") != "" || rec["status"] != 200.0 {
		t.Errorf("record %v", rec)
	}
}

// spiedConn shows the headers of the HTTP/2 frames that are read.
type spiedConn struct {
	*tls.Conn
	read *frameReader
}

func (c *spiedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.take(p[:n])
	return n, err
}

type frameReader struct {
	buf []byte
	on  func(http2.FrameHeader)
}

func (f *frameReader) take(p []byte) {
	f.buf = append(f.buf, p...)
	for len(f.buf) >= 9 {
		size := 9 + int(f.buf[0])<<16 + int(f.buf[1])<<8 + int(f.buf[2])
		if len(f.buf) < size {
			return
		}
		f.on(http2.FrameHeader{Type: http2.FrameType(f.buf[3])})
		f.buf = f.buf[size:]
	}
}

// TestDrainOfWebSockets: both sides are told by a close frame, between frames, and the shutdown does not wait for the limit.
func TestDrainOfWebSockets(t *testing.T) {
	for _, polite := range []bool{true, false} {
		overPlaces(t, func(t *testing.T, l *lab, p place) {
			got := make(chan string, 1)
			l.sockets(func(c *bufferedConn, _ *http.Request) {
				b := make([]byte, len(frame(5, true))+8)
				_, _ = io.ReadFull(c, b[:7])
				_, _ = c.Conn.Write(frame(3, false)[:4]) // of which one byte is missing
				_, _ = io.ReadFull(c, b[7:])
				_, _ = c.Conn.Write(append(frame(3, false)[4:], frame(1, false)...)) // and one frame too many
				got <- string(b)
				if !polite {
					_, _ = io.Copy(io.Discard, c)
				}
			})
			w := p.open(l, "")
			w.switched()
			w.write(string(frame(5, true)[:7]))
			w.expect(string(frame(3, false)[:4]))
			_, ended := l.drain()
			w.write(string(frame(5, true)[7:]))
			up := <-got
			if !strings.HasPrefix(up, string(frame(5, true))) || !isGoingAway([]byte(up[len(frame(5, true)):]), true) {
				t.Errorf("the upstream got %q", up)
			}
			w.expect(string(frame(3, false)[4:]))
			w.expect(string(goingAway(false)))
			if polite {
				if rest, err := w.ended(); rest != "" || err != nil {
					t.Errorf("%q %v", rest, err)
				}
				_ = w.Close()
			}
			<-ended
			if rec := l.next(); rec.str("error_class") != "drained" || rec["status"] != 101.0 {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestDrainOfTunnels: what is relayed goes on until the limit and is cut then; nothing new is opened, not even by a call that had
// begun.
func TestDrainOfTunnels(t *testing.T) {
	l := newLab(t)
	arrived, release := l.held("/slow", "one")
	roots := l.roots
	tc := tls.Client(l.connectTo(l.target("pass.ok.test"), ""), &tls.Config{ServerName: "pass.ok.test", RootCAs: roots})
	fmt.Fprintf(tc, "GET /slow HTTP/1.1\r\nHost: pass.ok.test\r\n\r\n")
	<-arrived
	cut, ended := l.drain()
	res, err := http.ReadResponse(bufio.NewReader(tc), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	if b, err := body.Peek(3); err != nil || string(b) != "one" {
		t.Errorf("%q %v", b, err)
	}
	c := l.proxy.begin("tool", "tunnel")
	if d := l.proxy.admit(&open{tool: "t1", cut: func(error) {}}, c); d == nil || d.Code != NotReady {
		t.Errorf("a tunnel was opened: %v", d)
	}
	select {
	case <-ended:
		t.Error("the tunnel was not waited for")
	default:
	}
	cut()
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the answer looks whole")
	}
	<-ended
	close(release)
	if rec := l.next(); rec.str("error_class") != "drained" {
		t.Errorf("record %v", rec)
	}
	l.noMore()
}
