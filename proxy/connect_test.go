package proxy

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func (l *lab) basic(token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("tool:"+token))
}

// bufferedConn is a connection some of whose bytes a reader holds already.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite ends the client's side.
func (c *bufferedConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// connectTo opens a tunnel by hand; early goes into the same write as the CONNECT.
func (l *lab) connectTo(target, early string) *bufferedConn {
	l.t.Helper()
	c := l.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n%s", target, target, l.basic(l.token), early)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		l.t.Fatalf("CONNECT %s: %q %v", target, line, err)
	}
	if blank, err := r.ReadString('\n'); err != nil || blank != "\r\n" {
		l.t.Fatalf("after the status line: %q %v", blank, err)
	}
	return &bufferedConn{c, r}
}

func TestRefusedConnectSaysWhy(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct{ name, target, auth, status, code string }{
		{"domain", "evil.ok.test:443", l.basic(l.token), "403 Forbidden: domain_not_allowed", "domain_not_allowed"},
		{"other port", "pass.ok.test:22", l.basic(l.token), "403 Forbidden: domain_not_allowed", "domain_not_allowed"},
		{"metadata", "169.254.169.254:80", l.basic(l.token), "403 Forbidden: private_network", "private_network"},
		{"private by name", l.target("private.ok.test"), l.basic(l.token), "403 Forbidden: private_network", "private_network"},
		{"no such name", l.target("absent.ok.test"), l.basic(l.token), "502 Bad Gateway: upstream_unreachable", "upstream_unreachable"},
		{"no token", l.target("pass.ok.test"), "", "407 Proxy Authentication Required: unauthenticated", "unauthenticated"},
		{"not a token", l.target("pass.ok.test"), l.basic("a.b.c"), "407 Proxy Authentication Required: unauthenticated", "unauthenticated"},
		{"odd scheme", l.target("pass.ok.test"), "Digest x", "407 Proxy Authentication Required: unauthenticated", "unauthenticated"},
		{"a path", "/x", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"a URL", "http://pass.ok.test:443/x", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"no port", "pass.ok.test", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"user info", "pass.ok.test@evil.test:443", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"octal loopback", "0177.0.0.1:443", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"short loopback", "127.1:443", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
		{"port 0", "pass.ok.test:0", l.basic(l.token), "400 Bad Request: bad_target", "bad_target"},
	} {
		// With the second Host the front reads the CONNECT, unless its target is one that net/http must refuse.
		for _, host := range []string{"x", c.target} {
			if host != "x" && !isPlainAuthority([]byte(host)) {
				continue
			}
			t.Run(c.name+", host "+host, func(t *testing.T) {
				asked := len(l.names.asked())
				conn := l.dial()
				auth := ""
				if c.auth != "" {
					auth = "Proxy-Authorization: " + c.auth + "\r\n"
				}
				// The client talks on at once, as some do; the answer must arrive all the same, and nothing of it be taken for a request.
				fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\nGET http://plain.ok.test/ HTTP/1.1\r\nHost: x\r\n\r\n", c.target, host, auth)
				all, err := io.ReadAll(conn)
				if err != nil {
					t.Fatalf("the answer did not arrive whole: %v", err)
				}
				res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(all))), nil)
				if err != nil {
					t.Fatalf("%q: %v", all, err)
				}
				body, _ := io.ReadAll(res.Body)
				p := problemOf(t, string(body))
				if res.Status != c.status || string(p.Code) != c.code || res.Header.Get("Toolgate-Denial") != c.code || p.Status != res.StatusCode {
					t.Errorf("status %q, problem %+v, header %v", res.Status, p, res.Header)
				}
				if res.Header.Get("Content-Type") != "application/problem+json" || p.Title == "" || p.Detail == "" || len(p.NextSteps) == 0 {
					t.Errorf("header %v, problem %+v", res.Header, p)
				}
				if (res.StatusCode == 407) != (len(res.Header["Proxy-Authenticate"]) == 2) {
					t.Errorf("Proxy-Authenticate %v", res.Header["Proxy-Authenticate"])
				}
				rec := l.next()
				if rec.str("code") != c.code || rec.str("id") != p.DecisionID || rec["status"] != float64(res.StatusCode) {
					t.Errorf("record %v", rec)
				}
				wantLookup := c.name == "private by name" || c.name == "no such name"
				if looked := len(l.names.asked()) > asked; looked != wantLookup {
					t.Errorf("asked the name server: %v", looked)
				}
				l.noMore()
			})
		}
	}
}
