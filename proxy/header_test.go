package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestRequestHeaders sends every kind of header that must not pass, and some that must, by hand over h1.
func TestRequestHeaders(t *testing.T) {
	for _, r := range routes[:2] {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			var got seen
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { got.add(req) })
			c := l.wire(r, "")
			c.send("GET", "/", "HTTP/1.1", strings.Join([]string{
				"Connection: keep-alive, Authorization, authorization, X-Nominated, Te",
				"Connection: connection, upgrade, HTTP2-Settings",
				"Authorization: Bearer of-the-tool",
				"X-Nominated: 1",
				"Proxy-Connection: proxy-connection, connection",
				"Proxy-Anything: 1",
				"proxy_authorization: Bearer twin",
				"Proxy_Connection: close",
				"Toolgate-Authorization: Bearer " + l.token,
				"Toolgate-Other: 1",
				"toolgate_authorization: Bearer twin",
				"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: evil.test", "X_Forwarded_Proto: http", "Forwarded: for=1.2.3.4", "Via: 1.1 tool",
				"X-Original-URL: /admin", "X_Original_Uri: /admin", "X-Rewrite-Url: /admin", "X-Original-Host: evil.test", "X-Original-Method: DELETE",
				"X_HTTP_Method_Override: DELETE", "X-HTTP_Method: DELETE", "X_Method-Override: DELETE",
				"Keep-Alive: timeout=1000", "Keep_Alive: timeout=1000",
				"TE: gzip, trailers",
				"Trailer: X-Later",
				"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
				"Transfer_Encoding: chunked", "Content_Length: 7",
				"Cookie: a=1", "Cookie: b=2",
				"X-Agent-Task: kept", "X_Under_Score: kept",
				"Accept: text/x, text/y",
			}, "\r\n")+"\r\n", "")
			if res := c.response(); res.StatusCode != 200 {
				t.Fatalf("status %d", res.StatusCode)
			}
			req := got.last(t)
			want := map[string][]string{
				"Cookie": {"a=1", "b=2"}, "X-Agent-Task": {"kept"}, "X_under_score": {"kept"}, "Accept": {"text/x, text/y"}, "Te": {"trailers"},
			}
			if r.scheme == "https" {
				if auth := req.Header["Authorization"]; len(auth) != 1 || !strings.HasPrefix(auth[0], "Bearer eyJ") {
					t.Errorf("%d values of Authorization, expected the binding's", len(auth))
				}
				delete(req.Header, "Authorization")
				want["Accept-Encoding"] = []string{"identity"} // a coding would hide what repeats the credential
			}
			for name, values := range req.Header {
				if !slices.Equal(values, want[name]) {
					t.Errorf("the upstream got %s: %q, expected %q", name, values, want[name])
				}
				delete(want, name)
			}
			for name := range want {
				t.Errorf("the upstream did not get %s", name)
			}
		})
	}
}

// TestNothingIsAddedToARequest: what the client did not say is not said for it.
func TestNothingIsAddedToARequest(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		var got seen
		l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { got.add(req) })
		req, _ := http.NewRequest("GET", l.on(r, "/%2e%2F;a/b?q=1;2&x=%zz"), nil)
		req.Header["User-Agent"] = []string{""} // none
		l.do(r, req)
		up := got.last(t)
		up.Header.Del("Authorization")
		if r.scheme == "https" && up.Header.Get("Accept-Encoding") == "identity" {
			up.Header.Del("Accept-Encoding") // of a brokered target only
		}
		if len(up.Header) != 0 {
			t.Errorf("the upstream got %v", up.Header)
		}
		if up.RequestURI != "/%2e%2F;a/b?q=1;2&x=%zz" {
			t.Errorf("the upstream got %s", up.RequestURI)
		}
		if want := strings.TrimPrefix(l.on(r, ""), r.scheme+"://"); up.Host != want {
			t.Errorf("the upstream got Host %s, expected %s", up.Host, want)
		}
	})
}

// TestContentTypeIsNotGuessed: a client that is told nothing must not be told what net/http makes of the first bytes.
func TestContentTypeIsNotGuessed(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html><script>")
		})
		req, _ := http.NewRequest("GET", l.on(r, "/"), nil)
		if got, there := l.do(r, req).Header["Content-Type"]; there {
			t.Errorf("Content-Type %q", got)
		}
	})
}

// TestResponseHeaders: what is of the upstream's connection ends here, what only the sidecar may say is not believed, and
// the credential does not come back.
func TestResponseHeaders(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			h := w.Header()
			for name, value := range map[string]string{
				"Toolgate-Denial": "revoked", "Toolgate-Other": "1", "Proxy-Authenticate": "Basic", "Proxy-Authentication-Info": "x", "Alt-Svc": `h3=":443"`,
				"Location": "/next?token=" + strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), "X-Echo": req.Header.Get("Authorization"),
				"Etag": `"kept"`, "Content-Type": "text/x",
			} {
				h.Set(name, value)
			}
			h["Set-Cookie"] = []string{"a=1", "b=2"}
			if req.ProtoMajor == 1 {
				h.Set("Connection", "X-Hop")
				h.Set("X-Hop", "1")
				h.Set("Keep-Alive", "timeout=1")
				h.Set("Upgrade", "h2c")
			}
		})
		req, _ := http.NewRequest("GET", l.on(r, "/"), nil)
		h := l.do(r, req).Header
		h.Del("Date")
		want := http.Header{"Etag": {`"kept"`}, "Content-Type": {"text/x"}, "Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"0"}, "Location": {"/next?token="}, "X-Echo": {""}}
		if r.scheme == "https" {
			want["Location"], want["X-Echo"] = []string{"/next?token=[REDACTED:credential]"}, []string{"Bearer [REDACTED:credential]"}
		}
		for name, values := range h {
			if !slices.Equal(values, want[name]) {
				t.Errorf("the client got %s: %q, expected %q", name, values, want[name])
			}
			delete(want, name)
		}
		for name := range want {
			t.Errorf("the client did not get %s", name)
		}
	})
}

// TestTraceIsRefused before any credential is asked for: its answer would be the request.
func TestTraceIsRefused(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		var got seen
		l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { got.add(req) })
		for _, method := range []string{"TRACE", "trace"} {
			req, _ := http.NewRequest(method, l.on(r, "/"), nil)
			if res := l.do(r, req); res.StatusCode != 403 || res.Header.Get("Toolgate-Denial") != "method_not_allowed" {
				t.Errorf("%s: %d %v", method, res.StatusCode, res.Header)
			}
			if rec := l.next(); rec.str("code") != "method_not_allowed" || rec.str("decision") != "deny" {
				t.Errorf("record %v", rec)
			}
		}
		if got.count() != 0 || l.issuer.Count("/token") != 0 {
			t.Errorf("%d requests, %d credentials", got.count(), l.issuer.Count("/token"))
		}
	}, func(f *labFiles) { f.config = replaceOnce(f.config, "mode: enforce", "mode: report") })
}

// TestMalformedRequests: a message whose end two parsers might see at different places is not sent on as two.
func TestMalformedRequests(t *testing.T) {
	second := "POST http://plain.ok.test/smuggled HTTP/1.1\r\nHost: plain.ok.test\r\nContent-Length: 0\r\n\r\n"
	chunked := "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct{ header, body string }{
		"TE of two words":            {"Transfer-Encoding: chunked, gzip\r\nContent-Length: 5\r\n", "hello"},
		"TE gzip first":              {"Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\n", "hello"},
		"TE with a comma":            {"Transfer-Encoding: chunked,\r\nContent-Length: 5\r\n", "hello"},
		"TE unknown":                 {"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", "hello"},
		"TE twice":                   {chunked + chunked, "0\r\n\r\n"},
		"two lengths":                {"Content-Length: 5\r\nContent-Length: 6\r\n", "hello"},
		"signed length":              {"Content-Length: +5\r\n", "hello"},
		"space before colon, length": {"Content-Length : 5\r\n", "hello"},
		"space before colon, TE":     {"Transfer-Encoding : chunked\r\n", "0\r\n\r\n"},
		"bare LF after chunk size":   {chunked, "5\nhello\r\n0\r\n\r\n"},
		"negative chunk":             {chunked, "-1\r\nhello\r\n0\r\n\r\n"},
		"hex prefix":                 {chunked, "0x5\r\nhello\r\n0\r\n\r\n"},
		"huge chunk":                 {chunked, "ffffffffffffffff1\r\nhello\r\n0\r\n\r\n"},
		"no end of chunk":            {chunked, "5\r\nhelloXX0\r\n\r\n"},
	} {
		for _, r := range routes[:2] {
			t.Run(name+" "+r.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				var got seen
				l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
					if _, err := io.Copy(io.Discard, req.Body); err == nil { // a whole request
						got.add(req)
					}
				})
				conn := l.wire(r, "")
				conn.send("POST", "/", "HTTP/1.1", c.header, c.body+second)
				answer, _ := conn.ended()
				if n := strings.Count(answer, "HTTP/1."); n > 1 || !strings.Contains(answer, " 400 ") && !strings.Contains(answer, " 501 ") {
					t.Errorf("%d answers: %q", n, answer)
				}
				if got.count() != 0 {
					t.Errorf("the upstream got %d requests", got.count())
				}
			})
		}
	}
}

// TestAmbiguousLengthIsSentOnce: of Content-Length and Transfer-Encoding one reaches the upstream.
func TestAmbiguousLengthIsSentOnce(t *testing.T) {
	head := make(chan string, 1)
	l, target := rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		all := ""
		for {
			line, err := r.ReadString('\n')
			if all += line; err != nil || line == "\r\n" {
				break
			}
		}
		head <- strings.ToLower(all)
		_, _ = io.ReadFull(r, make([]byte, len("5\r\nhello\r\n0\r\n\r\n"))) // closing with bytes unread resets the connection
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = c.Close()
	})
	conn := l.wire(routes[0], target)
	conn.send("POST", "/", "HTTP/1.1", "Transfer-Encoding: Chunked\r\nContent-Length: 5\r\nX-Folded: a\r\n b\r\n", "5\r\nhello\r\n0\r\n\r\n")
	got := <-head
	if strings.Contains(got, "content-length") || strings.Count(got, "transfer-encoding") != 1 || !strings.Contains(got, "x-folded: a b\r\n") {
		t.Errorf("the upstream got %q", got)
	}
	if res := conn.response(); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestHTTP10Body: net/http does not see a chunked body of HTTP/1.0, which must not become a second request.
func TestHTTP10Body(t *testing.T) {
	l := newLab(t)
	var got seen
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { got.add(req) })
	for _, method := range []string{"POST", "TRACE"} { // answered by the upstream, refused here
		c := l.wire(routes[0], "")
		second := "GET http://plain.ok.test:" + port(l.plain) + "/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + l.basic(l.token) + "\r\n\r\n"
		c.send(method, "/", "HTTP/1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", second)
		if answer, _ := c.ended(); strings.Count(answer, "HTTP/1.") != 1 {
			t.Errorf("%s: %q", method, answer)
		}
		l.next()
	}
	l.noMore()
	if got.count() != 1 {
		t.Errorf("%d requests", got.count())
	}
}

// TestConnectInsideATunnel is refused and not sent on, and does not disturb who comes next.
func TestConnectInsideATunnel(t *testing.T) {
	l := newLab(t)
	var got seen
	l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) { got.add(req); _, _ = io.WriteString(w, "mine") })
	c := l.wire(routes[1], "")
	c.send("CONNECT", l.target("bound.ok.test"), "HTTP/1.1", "Content-Length: 4\r\n", "GET ")
	if res := c.response(); res.StatusCode != 400 || res.Header.Get("Toolgate-Denial") != "bad_target" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	req, _ := http.NewRequest("CONNECT", l.on(routes[2], "/"), strings.NewReader("body"))
	if res := l.do(routes[2], req); res.StatusCode != 400 {
		t.Errorf("h2: %d", res.StatusCode)
	}
	if got.count() != 0 {
		t.Errorf("%d requests", got.count())
	}
	if status, body, err := get(l.client(l.token, true), l.on(routes[2], "/")); status != 200 || body != "mine" || err != nil {
		t.Errorf("%d %q %v", status, body, err)
	}
}
