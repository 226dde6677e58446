package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// request is what a raw upstream reads before it misbehaves.
func request(c net.Conn) *http.Request {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	return req
}

// checkFailure makes a call that fails before a response, and compares what client and record are told.
func (l *lab) checkFailure(client *http.Client, target string, status int, code Code, class string) problem {
	l.t.Helper()
	res, err := client.Get(target)
	if err != nil {
		l.t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	p := problemOf(l.t, string(b))
	if res.StatusCode != status || p.Code != code || res.Header.Get("Toolgate-Denial") != string(code) {
		l.t.Errorf("%d %q, expected %d %s", res.StatusCode, b, status, code)
	}
	if p.Retryable != (res.Header.Get("Retry-After") != "") {
		l.t.Errorf("retryable %v, Retry-After %q", p.Retryable, res.Header.Get("Retry-After"))
	}
	for _, secret := range []string{"127.0.0.1", "10.0.0.5", l.token, "client-secret-value", "x509", "dial tcp", "eyJ"} {
		if strings.Contains(string(b), secret) {
			l.t.Errorf("the answer says %q: %s", secret, b)
		}
	}
	rec := l.next()
	decision := "allow"
	if !meanings[code].failure {
		decision = "deny"
	}
	if rec.str("code") != string(code) || rec.str("error_class") != class || rec["status"] != float64(status) || rec.str("decision") != decision {
		l.t.Errorf("record %v, expected class %s, decision %s", rec, class, decision)
	}
	return p
}

func TestUpstreamsThatAreNotThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	l := newLab(t, func(f *labFiles) {
		f.config = replaceOnce(f.config, "tools: [t1]}]", "tools: [t1]}, {prefix: \"127.0.0.1/32\", ports: ["+closed+"], tools: [t1]}]")
		f.manifest = replaceOnce(f.manifest, "allowedDomains: [", "allowedDomains: [\"private.ok.test\", \"absent.ok.test\", \"closed.ok.test:"+closed+"\", ")
	})
	client := l.client(l.token, false)
	l.checkFailure(client, "http://absent.ok.test/", 502, UpstreamUnreachable, "dns")
	l.checkFailure(client, "http://closed.ok.test:"+closed+"/", 502, UpstreamUnreachable, "dial")
	l.checkFailure(client, "http://private.ok.test/", 403, PrivateNetwork, "address")
}

// rawBound binds the credential to the raw upstream as well.
func rawBound(f *labFiles) {
	f.config = replaceOnce(f.config, "targets: [\"bound", "targets: [\""+f.allowed("raw.ok.test:")+"\", \"bound")
}

// TestUpstreamsThatAreNotTrusted: the call ends before a byte of it was sent, let alone the credential.
func TestUpstreamsThatAreNotTrusted(t *testing.T) {
	stranger, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, c := range []struct {
		name    string
		ca      *CA // nil: the upstream's
		host    string
		at      time.Time
		version uint16
	}{
		{"unknown CA", stranger, "raw.ok.test", now, tls.VersionTLS13},
		{"wrong name", nil, "bound.ok.test", now, tls.VersionTLS13},
		{"expired", nil, "raw.ok.test", now.Add(-48 * time.Hour), tls.VersionTLS13},
		{"not yet valid", nil, "raw.ok.test", now.Add(48 * time.Hour), tls.VersionTLS13},
		{"old TLS", nil, "raw.ok.test", now, tls.VersionTLS11},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s h2=%v", c.name, h2), func(t *testing.T) {
				conf, got := make(chan *tls.Config, 1), make(chan int, 1)
				l, target := rawUpstream(t, func(conn net.Conn) {
					n, _ := tls.Server(conn, <-conf).Read(make([]byte, 1))
					got <- n
					_ = conn.Close()
				}, rawBound)
				if c.ca == nil {
					c.ca = l.upstreamCA
				}
				leaf, err := c.ca.leaf(c.host, c.at)
				if err != nil {
					t.Fatal(err)
				}
				conf <- &tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS10, MaxVersion: c.version}
				l.checkFailure(l.client(l.token, h2), "https://"+target+"/", 502, UpstreamTLS, "tls")
				if <-got != 0 {
					t.Error("the upstream got something of the request")
				}
			})
		}
	}
}

// TestUpstreamThatSpeaksNoTLS answers a handshake in clear text.
func TestUpstreamThatSpeaksNoTLS(t *testing.T) {
	for name, answer := range map[string]string{"HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n", "other": "220 smtp.ok.test ready\r\n"} {
		t.Run(name, func(t *testing.T) {
			l, target := rawUpstream(t, func(conn net.Conn) { _, _ = io.WriteString(conn, answer); _, _ = io.Copy(io.Discard, conn) }, rawBound)
			l.checkFailure(l.client(l.token, false), "https://"+target+"/", 502, UpstreamTLS, "tls")
		})
	}
}

// TestAnswersThatAreNone: each is a 502 that quotes nothing.
func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]string{
		"closes":          "",
		"no HTTP":         "220 smtp.ok.test ready at 127.0.0.1\r\n",
		"bad status":      "HTTP/1.1 abc OK\r\n\r\n",
		"status below":    "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
		"bad header":      "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"header too long": "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"space in length": "HTTP/1.1 200 OK\r\nContent-Length: 5 6\r\n\r\nhello",
		"odd coding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nhello",
		"breaks off":      "HTTP/1.1 200 OK\r\nContent-Le",
	} {
		t.Run(name, func(t *testing.T) {
			l, target := rawUpstream(t, func(c net.Conn) {
				request(c)
				_, _ = io.WriteString(c, answer)
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
			l.checkFailure(l.client(l.token, false), "http://"+target+"/", 502, UpstreamProtocol, "upstream_protocol")
		})
	}
}

// TestBodiesThatBreakOff: what the client gets must not look complete, whatever its version of HTTP.
func TestBodiesThatBreakOff(t *testing.T) {
	for name, answer := range map[string]string{
		"short":          "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
		"chunk cut":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello",
		"no last chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"bad chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
		"trailer cut":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Su",
		"stalls, length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
		"stalls, chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				stall, idle := strings.HasPrefix(name, "stalls"), "idleTimeout: 30s"
				if stall {
					idle = "idleTimeout: 1s"
				}
				l, target := rawUpstream(t, func(c net.Conn) {
					request(c)
					_, _ = io.WriteString(c, answer)
					if !stall {
						_ = c.(*net.TCPConn).CloseWrite()
					}
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}, replaced(t, "idleTimeout: 30s", idle))
				c := l.wire(routes[0], target)
				c.send("GET", "/", version, "", "")
				res, err := http.ReadResponse(c.r, nil)
				if err == nil { // else cut before the first byte had to be sent
					_, err = io.ReadAll(res.Body)
				}
				if err == nil {
					t.Error("the client saw a clean end")
				}
				rec := l.next()
				code, class := "upstream_protocol", "upstream_protocol"
				if stall {
					code, class = "upstream_timeout", "timeout"
				}
				if rec.str("code") != code || rec.str("error_class") != class || rec.str("decision") != "allow" || rec["status"] != 200.0 {
					t.Errorf("record %v", rec)
				}
				l.noMore()
			})
		}
	}
}

// TestStallOverH2 is the same for streams.
func TestStallOverH2(t *testing.T) {
	t.Parallel()
	l := newLab(t, replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if _, body, err := get(l.client(l.token, true), l.on(routes[2], "/")); err == nil {
		t.Errorf("a clean end after %q", body)
	}
	if rec := l.next(); rec.str("code") != "upstream_timeout" {
		t.Errorf("record %v", rec)
	}
}

// TestSecondAnswerIsNobodys: bytes after an answer must not answer the next request.
func TestSecondAnswerIsNobodys(t *testing.T) {
	conns := make(chan struct{}, 10)
	l, target := rawUpstream(t, func(c net.Conn) {
		conns <- struct{}{}
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nX-For: "+req.URL.Path+"\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+
				"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-For: nobody\r\n\r\nevil")
		}
	})
	client := l.client(l.token, false)
	for i := range 3 {
		res, err := client.Get(fmt.Sprintf("http://%s/%d", target, i))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(b) != "hello" || res.ContentLength >= 0 || res.Header.Get("X-For") != fmt.Sprintf("/%d", i) {
			t.Errorf("%q %v, length %d, header %v", b, err, res.ContentLength, res.Header)
		}
		<-conns // a connection of its own
	}
}

// TestToolTimeout is about an upstream that says nothing.
func TestToolTimeout(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		t.Parallel()
		l.mux.HandleFunc("/hang", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		p := l.checkFailure(l.client(l.token, r.h2), l.on(r, "/hang"), 504, ToolTimeout, "timeout")
		if !strings.Contains(p.Detail, "300ms") || p.Retryable {
			t.Errorf("problem %+v", p)
		}
	}, replaced(t, "timeoutMs: 30000", "timeoutMs: 300"))
}

// TestCallsThatMoveAreNoTimeout: a call may take longer than the tool's timeout and the idle timeout, up and down, while something
// moves. The limits are long, since a busy machine may be late with a byte.
func TestCallsThatMoveAreNoTimeout(t *testing.T) {
	const limit = 2 * time.Second
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		t.Parallel()
		sent := make(chan int64, 1)
		l.mux.HandleFunc("/slow", func(w http.ResponseWriter, req *http.Request) {
			n, err := io.Copy(io.Discard, req.Body)
			if want := <-sent; n != want || err != nil {
				t.Errorf("the upstream got %d bytes of %d, %v", n, want, err)
			}
			trickle(w, limit*5/4, func() { _ = http.NewResponseController(w).Flush() })
		})
		pr, pw := io.Pipe()
		go func() {
			sent <- trickle(pw, limit*5/4, func() {})
			_ = pw.Close()
		}()
		req, _ := http.NewRequest("POST", l.on(r, "/slow"), pr)
		res := l.do(r, req)
		if b, err := io.ReadAll(res.Body); res.StatusCode != 200 || len(b) == 0 || err != nil {
			t.Errorf("slow: %d %q %v", res.StatusCode, b, err)
		}
		if rec := l.next(); rec.str("code") != "" {
			t.Errorf("record %v", rec)
		}
	}, replaced(t, "timeoutMs: 30000", "timeoutMs: 2000"), replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
}

// trickle writes a byte now and then, until so much time has passed, and returns how many were written.
func trickle(w io.Writer, during time.Duration, flush func()) (n int64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < during; n++ {
		<-tick.C
		if _, err := io.WriteString(w, "x"); err != nil {
			return n
		}
		flush()
	}
	return n
}

// TestToolTimeoutBeyondTheIdleTimeout: a tunnel whose request is waited for is not idle.
func TestToolTimeoutBeyondTheIdleTimeout(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		t.Parallel()
		l.mux.HandleFunc("/hang", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		l.checkFailure(l.client(l.token, r.h2), l.on(r, "/hang"), 504, ToolTimeout, "timeout")
	}, replaced(t, "timeoutMs: 30000", "timeoutMs: 5000"), replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
}

func TestCredentialFailures(t *testing.T) {
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			var got seen
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { got.add(req) })
			client := l.client(l.token, r.h2)
			l.issuer.SetFaults(devissuer.Faults{TokenStatus: 503, RetryAfter: "7", TokenBody: `{"error":"temporarily_unavailable","error_description":"eyJ 127.0.0.1"}`})
			if p := l.checkFailure(client, l.on(r, "/"), 503, CredentialUnavailable, "credential"); p.RetryAfterMS == 0 {
				t.Errorf("problem %+v", p)
			}
			// Another caller, since a failure is remembered for a while.
			client = l.client(l.mint(map[string]any{"sub": "user:bob"}), r.h2)
			l.issuer.SetFaults(devissuer.Faults{TokenStatus: 400, TokenBody: `{"error":"invalid_target","error_description":"eyJ 127.0.0.1"}`})
			if p := l.checkFailure(client, l.on(r, "/"), 403, CredentialDenied, "credential"); p.Retryable {
				t.Errorf("problem %+v", p)
			}
			if got.count() != 0 {
				t.Error("the upstream was called without its credential")
			}
		})
	}
}

// TestPanicEndsItsCallOnly, leaves a record and prints nothing of what it held.
func TestPanicEndsItsCallOnly(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		good := *l.proxy.gates.Load()
		bad := good
		bad.upstreams = map[string]*upstream{"t1": nil}
		l.proxy.gates.Store(&bad)
		if status, _, err := get(l.client(l.token, r.h2), l.on(r, "/?token=secret-of-the-url")); err == nil {
			t.Errorf("status %d", status)
		}
		if rec := l.next(); rec.str("error_class") != "panic" {
			t.Errorf("record %v", rec)
		}
		if strings.Contains(l.printed(), "secret-of-the-url") {
			t.Error("the panic printed the URL")
		}
		l.proxy.gates.Store(&good)
		if status, _, err := get(l.client(l.token, r.h2), l.on(r, "/")); status != 200 || err != nil {
			t.Errorf("then %d %v", status, err)
		}
	})
}
