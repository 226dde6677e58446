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
)

// unreadable are requests that net/http refuses before any handler runs.
var unreadable = map[string]struct {
	request string
	status  int
	code    Code
}{
	"no HTTP":              {"SSH-2.0-client\r\n\r\n", 400, BadRequest},
	"no header line":       {"GET %s HTTP/1.1\r\nHost: %h\r\nno colon\r\n\r\n", 400, BadRequest},
	"two hosts":            {"GET %s HTTP/1.1\r\nHost: %h\r\nHost: %h\r\n\r\n", 400, BadRequest},
	"two lengths":          {"POST %s HTTP/1.1\r\nHost: %h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, BadRequest},
	"no host":              {"GET / HTTP/1.1\r\n\r\n", 400, BadRequest},
	"unknown version":      {"GET %s HTTP/3.0\r\nHost: %h\r\n\r\n", 505, BadRequest},
	"unknown coding":       {"POST %s HTTP/1.1\r\nHost: %h\r\nTransfer-Encoding: xchunked\r\n\r\n", 501, BadRequest},
	"unknown expectation":  {"POST %s HTTP/1.1\r\nHost: %h\r\nExpect: wonders\r\nContent-Length: 1\r\n\r\nx", 417, BadRequest},
	"more header than fit": {"GET %s HTTP/1.1\r\nHost: %h\r\nX: " + strings.Repeat("x", 60<<10) + "\r\n\r\n", 431, HeaderTooLarge},
}

// TestWhatCannotBeReadIsRefusedAndRecorded, by the listener's own server and by the one inside tunnels, on new and on kept
// connections.
func TestWhatCannotBeReadIsRefusedAndRecorded(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	inside := l.target("bound.ok.test")
	for where, begin := range map[string]func() net.Conn{
		"listener": l.dial,
		"TLS in a tunnel": func() net.Conn {
			return tls.Client(l.connectTo(inside, ""), &tls.Config{ServerName: "bound.ok.test", RootCAs: roots, NextProtos: []string{"http/1.1"}})
		},
		"tunnel without TLS": func() net.Conn { return l.connectTo(inside, "") },
	} {
		url, host := "/", inside
		if where == "listener" {
			url, host = l.url("http", "plain.ok.test", "/"), "plain.ok.test"
		}
		for name, c := range unreadable {
			if where != "listener" && name == "no HTTP" {
				continue // the same
			}
			for _, kept := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, kept=%v", where, name, kept), func(t *testing.T) {
					conn := begin()
					r := bufio.NewReader(conn)
					if kept {
						fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", url, host, l.basic(l.token))
						res, err := http.ReadResponse(r, nil)
						if err != nil {
							t.Fatal(err)
						}
						_, _ = io.Copy(io.Discard, res.Body)
						l.next()
					}
					go func() { _, _ = io.WriteString(conn, strings.NewReplacer("%s", url, "%h", host).Replace(c.request)) }()
					l.wantRefusal(t, r, c.status, c.code)
					rec := l.next()
					if rec.str("code") != string(c.code) || rec.str("decision") != "deny" || rec["status"] != float64(c.status) || rec.str("kind") != "request" {
						t.Errorf("record %v", rec)
					}
					if where != "listener" && (rec.str("host") != "bound.ok.test" || rec.str("tool") != "t1") {
						t.Errorf("record %v", rec)
					}
					l.noMore()
				})
			}
		}
	}
	_, body, err := get(http.DefaultClient, l.admin.URL+"/metrics")
	if want := `toolgate_calls_total{code="header_too_large",decision="deny",tool="other"} 2`; err != nil || !strings.Contains(body, want) {
		t.Errorf("the metrics lack %s: %v", want, err)
	}
	waitUntil(t, func() bool { return len(l.proxy.tunnels.byTool()) == 0 })
	l.noMore()
}

// wantRefusal reads one answer and the connection's end.
func (l *lab) wantRefusal(t *testing.T, r *bufio.Reader, status int, code Code) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	p := problemOf(t, string(body))
	if res.StatusCode != status || p.Status != status || p.Code != code || res.Header.Get("Toolgate-Denial") != string(code) || !res.Close {
		t.Errorf("status %d, %v, %+v", res.StatusCode, res.Header, p)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("something follows the refusal")
	}
}

// TestHTTP2InsideATunnel goes on beside the guard.
func TestHTTP2InsideATunnel(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	roots := l.roots.Clone()
	roots.AddCert(l.ca.cert)
	tc := tls.Client(l.connectTo(l.target("bound.ok.test"), ""), &tls.Config{ServerName: "bound.ok.test", RootCAs: roots, NextProtos: []string{"h2"}})
	cc, err := h2Over(tc)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		req, _ := http.NewRequest("GET", l.url("https", "bound.ok.test", "/"), nil)
		res, err := cc.RoundTrip(req)
		if err != nil || res.StatusCode != 200 || res.ProtoMajor != 2 {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
	}
}

// h2Over returns net/http's client of HTTP/2 on a connection whose TLS is made by hand.
func h2Over(conn net.Conn) (*http.ClientConn, error) {
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr.NewClientConn(context.Background(), "http", "inside.test:80")
}
