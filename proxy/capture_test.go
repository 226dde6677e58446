package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// captured adds a transparent listener to a lab, to which connections come as if they had been on their way to an address of
// the documentation's range, at the port of one of the upstreams. What netfilter says of a connection is tested where
// netfilter is.
func captured(t *testing.T, upstream func(*lab) *httptest.Server, options ...labOption) (*lab, string) {
	t.Helper()
	l := newLab(t, options...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := strconv.ParseUint(port(upstream(l)), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(p))
	s := &capture{
		proxy: l.proxy, listener: "tool", own: ln.Addr().(*net.TCPAddr).AddrPort(), timeout: 500 * time.Millisecond,
		original: func(*net.TCPConn) (netip.AddrPort, error) { return to, nil },
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(&crowd{Listener: ln, max: 100}) }()
	t.Cleanup(func() {
		_ = ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l, ln.Addr().String()
}

func overTLS(l *lab) *httptest.Server   { return l.tls }
func overPlain(l *lab) *httptest.Server { return l.plain }

// withTokenFile gives the listener a token, since a captured client cannot give one with its connection.
func withTokenFile(f *labFiles) {
	f.config = strings.Replace(f.config, "tool: t1}", "tool: t1, tokenFile: listener.jwt}", 1)
}

// direct is a client that knows of no proxy and is captured.
func (l *lab) direct(at string, h2 bool) *http.Client {
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", at)
		},
	}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func TestCapturedTLS(t *testing.T) {
	l, at := captured(t, overTLS, withTokenFile)
	var got seen
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { got.add(r); _, _ = io.WriteString(w, r.TLS.ServerName) })
	for _, h2 := range []bool{false, true} {
		client := l.direct(at, h2)
		res, err := client.Get(l.url("https", "pass.ok.test", "/"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(body) != "pass.ok.test" || !bytes.Equal(res.TLS.PeerCertificates[0].Raw, l.tls.TLS.Certificates[0].Certificate[0]) {
			t.Errorf("relayed: %q", body)
		}
		client.CloseIdleConnections()
		if rec := l.next(); rec.str("kind") != "tunnel" || rec.str("host") != "pass.ok.test" || rec.str("subject") != "user:alice" || rec.str("method") != "" {
			t.Errorf("record %v", rec)
		}
		if status, _, err := get(client, l.url("https", "bound.ok.test", "/x")); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if auth := got.last(t).Header.Get("Authorization"); !strings.HasPrefix(auth, "Bearer ey") {
			t.Errorf("intercepted: Authorization %.10q", auth)
		}
		if rec := l.next(); rec.str("kind") != "request" || rec["intercepted"] != true {
			t.Errorf("record %v", rec)
		}
	}
	l.noMore()
}

// TestCapturedRefusals: nobody is asked or dialled, and the connection ends with an alert that says so.
func TestCapturedRefusals(t *testing.T) {
	l, at := captured(t, overTLS, withTokenFile)
	for name, c := range map[string]struct {
		config *tls.Config
		alert  []byte
		code   string
	}{
		"not allowed": {&tls.Config{ServerName: "evil.ok.test"}, alertAccessDenied, "domain_not_allowed"},
		"no name":     {&tls.Config{InsecureSkipVerify: true}, alertUnrecognizedName, "bad_target"},
		"odd name":    {&tls.Config{ServerName: "127.1"}, alertAccessDenied, "bad_target"},
		"private":     {&tls.Config{ServerName: "private.ok.test"}, alertAccessDenied, "private_network"},
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		hello := helloOf(t, c.config)
		for _, part := range [][]byte{hello[:7], hello[7:]} {
			if _, err := conn.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := io.ReadAll(conn); err != nil || !bytes.Equal(b, c.alert) {
			t.Errorf("%s: % x %v", name, b, err)
		}
		_ = conn.Close()
		if rec := l.next(); rec.str("code") != c.code || rec.str("decision") != "deny" || rec.str("kind") != "tunnel" {
			t.Errorf("%s: record %v", name, rec)
		}
	}
	if asked := l.names.asked(); strings.Contains(fmt.Sprint(asked), "evil") {
		t.Errorf("asked for %v", asked)
	}
}

// TestCapturedSilence: a client that says nothing, or half a hello, is let go.
func TestCapturedSilence(t *testing.T) {
	l, at := captured(t, overTLS, withTokenFile)
	for _, say := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, say)
		if b, err := io.ReadAll(conn); err != nil || !bytes.Equal(b, alertUnrecognizedName) {
			t.Errorf("% x %v", b, err)
		}
		_ = conn.Close()
		if rec := l.next(); rec.str("code") != "bad_target" || rec.str("error_class") != "client_hello" {
			t.Errorf("record %v", rec)
		}
	}
}

// TestCapturedPlainHTTP: the host is the request's, the port the connection's.
func TestCapturedPlainHTTP(t *testing.T) {
	l, at := captured(t, overPlain)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	do := func(target, host, token string) (int, string) {
		t.Helper()
		req, _ := http.NewRequest("GET", target, nil)
		req.Host = host
		if token != "" {
			req.Header.Set("Toolgate-Authorization", "Bearer "+token)
		}
		res, err := l.direct(at, false).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body)
		if code := res.Header.Get("Toolgate-Denial"); code != "" {
			return res.StatusCode, code
		}
		return res.StatusCode, string(body)
	}
	plain := "plain.ok.test:" + port(l.plain)
	for _, c := range []struct {
		host, token string
		status      int
		want        string
	}{
		{plain, l.token, 200, plain},
		{plain, "", 407, "unauthenticated"},
		{"evil.ok.test:" + port(l.plain), l.token, 403, "domain_not_allowed"},
		{"plain.ok.test", l.token, 421, "target_mismatch"}, // port 80, which is not where the connection went
		{"plain.ok.test:1", l.token, 421, "target_mismatch"},
		{"127.1", l.token, 400, "bad_target"},
	} {
		if status, got := do("http://x/", c.host, c.token); status != c.status || got != c.want {
			t.Errorf("Host %s: %d %q, expected %d %q", c.host, status, got, c.status, c.want)
		}
		if rec := l.next(); rec["status"] != float64(c.status) || rec.str("kind") != "request" {
			t.Errorf("Host %s: record %v", c.host, rec)
		}
	}
	l.noMore()
}

// TestCapturedCallerInTheRequest: without a token file the caller is who each request inside says, and nothing is dialled before.
func TestCapturedCallerInTheRequest(t *testing.T) {
	l, at := captured(t, overTLS)
	var got seen
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { got.add(r) })
	for token, status := range map[string]int{"": 407, l.token: 200} {
		req, _ := http.NewRequest("GET", l.url("https", "bound.ok.test", "/"), nil)
		if token != "" {
			req.Header.Set("Toolgate-Authorization", "Bearer "+token)
		}
		before := got.count()
		res, err := l.direct(at, true).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status || got.count() > before != (status == 200) {
			t.Errorf("status %d, expected %d", res.StatusCode, status)
		}
		l.next()
	}
}

func TestCapturedTunnelIsCut(t *testing.T) {
	l, at := captured(t, overTLS, withTokenFile)
	l.stream()
	res, err := l.direct(at, true).Get(l.url("https", "pass.ok.test", "/stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	l.revoke(killswitch.Selector{Tool: []string{"t1"}})
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	if rec := l.next(); rec.str("code") != "revoked" {
		t.Errorf("record %v", rec)
	}
}

// TestTransparentListenerIsNoProxy: whoever connects to it on purpose gets nothing, or it would be a way to any address.
func TestTransparentListenerIsNoProxy(t *testing.T) {
	l := newLab(t, replaced(t, `{name: tool, address`, `{name: tool, kind: transparent, address`))
	c := l.dial()
	_, _ = io.WriteString(c, "CONNECT "+l.target("pass.ok.test")+" HTTP/1.1\r\nHost: x\r\nProxy-Authorization: "+l.basic(l.token)+"\r\n\r\n")
	if b, _ := io.ReadAll(c); len(b) != 0 {
		t.Errorf("%q", b)
	}
	if rec := l.next(); rec.str("code") != "bad_target" {
		t.Errorf("record %v", rec)
	}
}
