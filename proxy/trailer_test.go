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

func TestResponseTrailers(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/announced", func(w http.ResponseWriter, req *http.Request) {
			h := w.Header()
			h["Trailer"] = []string{"X-Sum, X-Missing", "Set-Cookie"}
			h.Set("X-Missing", "as a header")
			_, _ = io.WriteString(w, "body")
			h.Del("X-Missing")
			h["X-Sum"] = []string{"1", "2"}
			h.Set("Set-Cookie", "forbidden=1")
			h.Set(http.TrailerPrefix+"X-Echo", req.Header.Get("Authorization"))
		})
		l.mux.HandleFunc("/unannounced", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "body")
			_ = http.NewResponseController(w).Flush()
			h := w.Header()
			h.Set(http.TrailerPrefix+"Grpc-Status", "0")
			h.Set(http.TrailerPrefix+"Set-Cookie", "forbidden=1")
			h.Set(http.TrailerPrefix+"Toolgate-Denial", "revoked")
		})
		l.mux.HandleFunc("/only", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "7")
		})
		for path, want := range map[string]http.Header{
			"/announced":   {"X-Sum": {"1", "2"}, "X-Echo": {""}},
			"/unannounced": {"Grpc-Status": {"0"}},
			"/only":        {"Grpc-Status": {"7"}},
		} {
			if path == "/announced" && r.scheme == "https" {
				want["X-Echo"] = []string{"Bearer [REDACTED:credential]"}
			}
			req, _ := http.NewRequest("POST", l.on(r, path), strings.NewReader("x"))
			req.Header.Set("Te", "trailers")
			res := l.do(r, req)
			announced := res.Trailer.Clone()
			if _, there := announced["Set-Cookie"]; there {
				t.Errorf("%s: a forbidden trailer is announced", path)
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Fatal(err)
			}
			for name, values := range res.Trailer {
				if len(values) > 0 && !slices.Equal(values, want[name]) {
					t.Errorf("%s: trailer %s: %q, expected %q", path, name, values, want[name])
				}
			}
			for name := range want {
				if res.Trailer[name] == nil {
					t.Errorf("%s: no trailer %s", path, name)
				}
			}
			if path == "/announced" && len(announced) != 2 {
				t.Errorf("announced: %v", announced)
			}
		}
	})
}

// TestRequestTrailers: those that would change what was decided, if the upstream merged them into the header, stay here.
func TestRequestTrailers(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		var trailer, announced http.Header
		var auth string
		l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
			announced = req.Trailer.Clone()
			_, _ = io.Copy(io.Discard, req.Body)
			trailer, auth = req.Trailer, req.Header.Get("Authorization")
		})
		req, _ := http.NewRequest("POST", l.on(r, "/"), struct{ io.Reader }{strings.NewReader("body")})
		req.Trailer = http.Header{"X-Sum": {"1", "2"}, "Cookie": {"evil=1"}, "Toolgate-Authorization": {"x"}, "X-Forwarded-For": {"1.1.1.1"}}
		if res := l.do(r, req); res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
		if len(announced) != 1 || len(trailer) != 1 || !slices.Equal(trailer["X-Sum"], []string{"1", "2"}) {
			t.Errorf("announced %v, trailer %v", announced, trailer)
		}
		if r.scheme == "https" && !strings.HasPrefix(auth, "Bearer eyJ") {
			t.Error("the credential was not sent")
		}
	})
}

// TestForbiddenRequestTrailersByHand: stock clients refuse to send these.
func TestForbiddenRequestTrailersByHand(t *testing.T) {
	for _, r := range routes[:2] {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			var got seen
			var trailer http.Header
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				trailer = req.Trailer
				got.add(req)
			})
			c := l.wire(r, "")
			c.send("POST", "/", "HTTP/1.1", "Transfer-Encoding: chunked\r\nTrailer: Authorization, X-Sum, authorization_x\r\n",
				"4\r\nbody\r\n0\r\nAuthorization: Bearer evil\r\nX-Sum: 1\r\nCookie: unannounced=1\r\nX-Unannounced: 1\r\n\r\n")
			res := c.response()
			if res.StatusCode == 400 { // net/http refuses some by itself
				return
			}
			auth := got.last(t).Header["Authorization"]
			if res.StatusCode != 200 || trailer.Get("Authorization") != "" || trailer.Get("Cookie") != "" || (len(auth) == 1) != (r.scheme == "https") || slices.Contains(auth, "Bearer evil") {
				t.Errorf("status %d, trailer %v", res.StatusCode, trailer)
			}
		})
	}
}

// TestForbiddenResponseTrailersByHand: stock servers refuse to send these.
func TestForbiddenResponseTrailersByHand(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nWWW-Authenticate: Basic\r\nContent-Type: text/evil\r\nX-Other: 2\r\n\r\n")
		_ = c.Close()
	})
	c := l.wire(routes[0], target)
	c.send("GET", "/", "HTTP/1.1", "Connection: close\r\n", "")
	all, err := c.ended()
	_, tail, _ := strings.Cut(all, "\r\n0\r\n")
	if err != nil || !strings.Contains(tail, "X-Sum: 1\r\n") || !strings.Contains(tail, "X-Other: 2\r\n") || strings.Contains(tail, "Authenticate") || strings.Contains(tail, "Content-Type") {
		t.Errorf("%q %v", all, err)
	}
}
