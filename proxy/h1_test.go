package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

// scripted is a raw upstream whose connections are numbered; each request goes to serve, which reports whether the connection
// stays open. It counts what arrives.
func scripted(t *testing.T, serve func(c net.Conn, conn, request int, r *http.Request) bool) (*lab, string, chan string) {
	seen, next := make(chan string, 100), make(chan int, 1)
	next <- 1
	l, target := rawUpstream(t, func(c net.Conn) {
		conn := <-next
		next <- conn + 1
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			seen <- fmt.Sprintf("%d.%d", conn, n)
			if !serve(c, conn, n, req) {
				return
			}
		}
	})
	return l, target, seen
}

func ok(c net.Conn) bool {
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err == nil
}

func post(client *http.Client, target, body string) (int, error) {
	res, err := client.Post(target, "text/plain", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.ReadAll(res.Body)
	return res.StatusCode, err
}

// TestH1ConnectionIsUsedAgain, with and without bodies.
func TestH1ConnectionIsUsedAgain(t *testing.T) {
	l, target, seen := scripted(t, func(c net.Conn, _, _ int, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		return ok(c)
	})
	client := l.client(l.token, false)
	for i := range 4 {
		status, _, err := get(client, "http://"+target+"/")
		if i%2 == 1 {
			status, err = post(client, "http://"+target+"/", "body")
		}
		if status != 200 || err != nil {
			t.Errorf("%d: %d %v", i, status, err)
		}
	}
	for i := range 6 {
		if got, want := <-seen, fmt.Sprintf("1.%d", i+1); got != want {
			t.Errorf("request %s, expected %s", got, want)
		}
	}
}

// TestH1ConnectionClosedWhileIdle is no error of the call that comes next, whatever its method, as long as nothing was sent.
func TestH1ConnectionClosedWhileIdle(t *testing.T) {
	closed := make(chan struct{}, 10)
	l, target, seen := scripted(t, func(c net.Conn, _, _ int, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		ok(c)
		_ = c.Close()
		closed <- struct{}{}
		return false
	})
	client := l.client(l.token, false)
	for i := range 4 {
		if status, err := post(client, "http://"+target+"/", "body"); status != 200 || err != nil {
			t.Fatalf("%d: %d %v", i, status, err)
		}
		if got, want := <-seen, fmt.Sprintf("%d.1", i+1); got != want {
			t.Errorf("request %s, expected %s", got, want)
		}
		<-closed
	}
}

// TestH1ConnectionThatBreaksInUse: a request without an effect is sent once more, any other is not.
func TestH1ConnectionThatBreaksInUse(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			l, target, seen := scripted(t, func(c net.Conn, conn, n int, _ *http.Request) bool {
				return (conn > 1 || n == 1) && ok(c) // the second one is swallowed
			})
			client := l.client(l.token, false)
			want, times := 502, 2
			if method == "GET" {
				want, times = 200, 3
			}
			for _, want := range []int{200, want} {
				req, _ := http.NewRequest(method, "http://"+target+"/", nil)
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("status %d, expected %d", res.StatusCode, want)
				}
			}
			if len(seen) != times {
				t.Errorf("the upstream saw %d requests, expected %d", len(seen), times)
			}
		})
	}
}

// TestH1UnaskedAnswer: what an upstream sends while its connection idles answers nobody's request.
func TestH1UnaskedAnswer(t *testing.T) {
	send, sent := make(chan struct{}), make(chan struct{})
	l, target, seen := scripted(t, func(c net.Conn, _, _ int, _ *http.Request) bool {
		ok(c)
		go func() { // after the answer was relayed
			<-send
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			sent <- struct{}{}
		}()
		return true
	})
	client := l.client(l.token, false)
	for range 3 {
		if _, body, err := get(client, "http://"+target+"/"); body != "ok" || err != nil {
			t.Fatalf("%q %v", body, err)
		}
		l.next() // the call has given its connection back
		send <- struct{}{}
		<-sent
	}
	for i := range 3 {
		if got, want := <-seen, fmt.Sprintf("%d.1", i+1); got != want {
			t.Errorf("request %s, expected %s", got, want)
		}
	}
}

// TestUpstreamDiesDuringAPause of the client's upload: the client hears of it at once and not at the tool's timeout.
func TestUpstreamDiesDuringAPause(t *testing.T) {
	for _, length := range []string{"Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"} {
		for _, part := range []string{"", "4\r\npart\r\n"} {
			l, target, _ := scripted(t, func(c net.Conn, _, _ int, r *http.Request) bool {
				_, _ = io.ReadFull(r.Body, make([]byte, min(4, len(part))))
				return false
			})
			w := l.wire(routes[0], target)
			_ = w.SetReadDeadline(time.Now().Add(4 * time.Second)) // the tool's timeout is 5 s
			w.send("POST", "/", "HTTP/1.1", length, part)
			if res := w.response(); res.StatusCode != 502 {
				t.Errorf("%q %q: status %d", length, part, res.StatusCode)
			}
			if rec := l.next(); rec.str("code") != "upstream_protocol" || rec.str("error_class") != "upstream_protocol" {
				t.Errorf("%q %q: record %v", length, part, rec)
			}
			_ = w.Close()
		}
	}
}

// TestH1PoolIsBounded: connections beyond the bound are closed, and those that idle for long, and all of a retired pool.
func TestH1PoolIsBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := &h1Pool{idle: map[origin][]*h1Conn{}, waiting: map[origin][]*waiter{}}
	held := func(n int) {
		t.Helper()
		sum := 0
		for _, l := range p.idle {
			sum += len(l)
		}
		if p.held != n || sum != n {
			t.Errorf("%d held, %d listed, expected %d", p.held, sum, n)
		}
	}
	conn := func(host string) *h1Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return newH1Conn(origin{host: host}, c.(*net.TCPConn), c, 1<<10)
	}
	var last *h1Conn
	for range maxIdlePerHost + 1 {
		last = conn("a")
		p.put(last)
	}
	held(maxIdlePerHost)
	if _, err := last.conn.Write([]byte("x")); err == nil {
		t.Error("the one too many is open")
	}
	for i := range maxIdle - maxIdlePerHost + 1 {
		last = conn(fmt.Sprint(i))
		p.put(last)
	}
	held(maxIdle)
	if _, err := last.conn.Write([]byte("x")); err == nil {
		t.Error("the one too many is open")
	}
	old, _ := p.take(origin{host: "a"})
	p.put(old)
	for _, c := range p.idle[origin{host: "a"}][:maxIdlePerHost-1] {
		c.since -= int64(idleTime)
	}
	p.tidy()
	held(maxIdle - maxIdlePerHost + 1)
	p.retire()
	held(0)
	p.put(old)
	held(0)
	if _, err := old.conn.Write([]byte("x")); err == nil {
		t.Error("a retired pool took a connection")
	}
}

// TestHeadThatWouldNotStayOnItsLines is not written.
func TestHeadThatWouldNotStayOnItsLines(t *testing.T) {
	r, _ := http.NewRequest("GET", "http://h.test/", nil)
	for name, spoil := range map[string]func(r *http.Request){
		"method": func(r *http.Request) { r.Method = "GET /evil HTTP/1.1\r\nX:" },
		"path":   func(r *http.Request) { r.URL.Opaque = "/\r\nX: evil" },
		"space":  func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1" },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a b\r\nX: evil" },
		"host":   func(r *http.Request) { r.Host = "h\r\nX: evil" },
		"header": func(r *http.Request) { r.Header["Y"] = []string{"y\r\nX: evil"} },
	} {
		spoilt := r.Clone(t.Context())
		spoil(spoilt)
		var b strings.Builder
		w := bufio.NewWriter(&b)
		err := writeHead(w, spoilt)
		if _ = w.Flush(); err == nil && strings.Contains(b.String(), "\nX:") || err == nil && name != "header" {
			t.Errorf("%s: %q", name, b.String())
		}
	}
}

// deafDialer never connects.
type deafDialer struct{ asked chan struct{} }

func (d deafDialer) Dial(ctx context.Context, _, _ string, _ uint16, _ *egress.Attempts) (duplex, error) {
	d.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (deafDialer) Check(context.Context, string, string, uint16) error { return nil }

// TestH1ConnectionGivenBack serves a call that would otherwise wait for a new one.
func TestH1ConnectionGivenBack(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	tcp, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o, d := origin{host: "a", port: 80}, deafDialer{make(chan struct{}, 2)}
	p := newH1Pool("t1", d, &tls.Config{}, config.Limits{MaxHeaderBytes: 1 << 10})
	given := newH1Conn(o, tcp.(*net.TCPConn), tcp, 1<<10)
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan *h1Conn)
	go func() { c, _ := p.get(ctx, o, nil); got <- c }()
	<-d.asked
	p.put(given)
	if c := <-got; c != given {
		t.Fatal("another connection")
	}
	go func() { c, _ := p.get(ctx, o, nil); got <- c }()
	<-d.asked
	cancel(errDrained)
	if c := <-got; c != nil || len(p.waiting) != 0 {
		t.Errorf("connection %v, %d waiting", c, len(p.waiting))
	}
}
