package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestEventsArriveOneByOne: the header arrives before the first event exists, each event before the next one is made.
func TestEventsArriveOneByOne(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		for _, kind := range []string{"text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream"} {
			release := make(chan struct{})
			l.mux.HandleFunc("/"+kind, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_ = http.NewResponseController(w).Flush()
				for i := range 5 {
					<-release
					fmt.Fprintf(w, "data: %d\n", i)
					_ = http.NewResponseController(w).Flush()
				}
			})
			req, _ := http.NewRequest("GET", l.on(r, "/"+kind), nil)
			res := l.do(r, req)
			if res.Header.Get("Content-Type") != kind {
				t.Errorf("Content-Type %q", res.Header.Get("Content-Type"))
			}
			lines := bufio.NewReader(res.Body)
			for i := range 5 {
				release <- struct{}{}
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%s: event %d: %q %v", kind, i, line, err)
				}
			}
			if _, err := lines.ReadByte(); err != io.EOF {
				t.Errorf("%s: the end: %v", kind, err)
			}
			if rec := l.next(); rec["bytes_in"] != 40.0 || rec.str("code") != "" || rec.str("error_class") != "" {
				t.Errorf("record %v", rec)
			}
		}
	})
}

// TestBothDirectionsAtOnce: the client's next line depends on the upstream's last one.
func TestBothDirectionsAtOnce(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			_ = rc.Flush()
			in := bufio.NewReader(req.Body)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = io.WriteString(w, "got "+line)
				_ = rc.Flush()
			}
		})
		pr, pw := io.Pipe()
		req, _ := http.NewRequest("POST", l.on(r, "/"), pr)
		res := l.do(r, req)
		in := bufio.NewReader(res.Body)
		for i := range 5 {
			fmt.Fprintf(pw, "line %d\n", i)
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("got line %d\n", i) {
				t.Fatalf("%d: %q %v", i, line, err)
			}
		}
		_ = pw.Close()
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("the end: %v", err)
		}
		if rec := l.next(); rec["bytes_out"] != 35.0 || rec["bytes_in"] != 55.0 || rec.str("error_class") != "" {
			t.Errorf("record %v", rec)
		}
	})
}

// TestUploadsAreStreamed: the upstream has the first piece before the second is sent.
func TestUploadsAreStreamed(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		got := make(chan string)
		l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
			in := bufio.NewReader(req.Body)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				got <- line
			}
		})
		pr, pw := io.Pipe()
		go func() {
			defer func() { _ = pw.Close() }()
			for i := range 3 {
				fmt.Fprintf(pw, "line %d\n", i)
				if line := <-got; line != fmt.Sprintf("line %d\n", i) {
					t.Errorf("the upstream got %q", line)
				}
			}
		}()
		req, _ := http.NewRequest("PUT", l.on(r, "/"), pr)
		if res := l.do(r, req); res.StatusCode != 200 {
			t.Errorf("status %d", res.StatusCode)
		}
	})
}

func TestBigBodiesArriveIntact(t *testing.T) {
	down := make([]byte, 2<<20+17)
	_, _ = rand.Read(down)
	up := make([]byte, 2<<20+3)
	_, _ = rand.Read(up)
	hash := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			h := sha256.New()
			n, err := io.Copy(h, req.Body)
			w.Header().Set("X-Got", fmt.Sprint(n, err, hex.EncodeToString(h.Sum(nil)), req.ContentLength))
			if req.URL.Query().Has("length") {
				w.Header().Set("Content-Length", strconv.Itoa(len(down)))
			}
			_, _ = w.Write(down)
		})
		for _, length := range []bool{true, false} {
			var body io.Reader = bytes.NewReader(up)
			query, wantLength := "?length", int64(len(up))
			if !length {
				body, query, wantLength = struct{ io.Reader }{body}, "", -1
			}
			req, _ := http.NewRequest("POST", l.on(r, "/"+query), body)
			res := l.do(r, req)
			got, err := io.ReadAll(res.Body)
			if err != nil || hash(got) != hash(down) || (res.ContentLength >= 0) != length {
				t.Errorf("length %v: %d bytes of %d came, Content-Length %d: %v", length, len(got), len(down), res.ContentLength, err)
			}
			if want := fmt.Sprint(len(up), nil, hash(up), wantLength); res.Header.Get("X-Got") != want {
				t.Errorf("length %v: the upstream got %s, expected %s", length, res.Header.Get("X-Got"), want)
			}
			if rec := l.next(); rec["bytes_in"] != float64(len(down)) || rec["bytes_out"] != float64(len(up)) {
				t.Errorf("record %v", rec)
			}
		}
	})
}

// TestClientsLeavingEndsTheCallUpstream, before the header and in mid-body.
func TestClientsLeavingEndsTheCallUpstream(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		arrived, gone := make(chan struct{}), make(chan struct{})
		wait := func(req *http.Request) { arrived <- struct{}{}; <-req.Context().Done(); gone <- struct{}{} }
		l.mux.HandleFunc("/before", func(_ http.ResponseWriter, req *http.Request) { wait(req) })
		l.mux.HandleFunc("/within", func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
			wait(req)
		})
		client, before := l.client(l.token, r.h2), 0
		for range 5 {
			for _, path := range []string{"/before", "/within"} {
				ctx, cancel := context.WithCancel(context.Background())
				req, _ := http.NewRequestWithContext(ctx, "GET", l.on(r, path), nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if res, err := client.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
				}()
				<-arrived
				cancel()
				<-gone
				<-done
				if rec := l.next(); rec.str("error_class") != "client_gone" || rec.str("decision") != "allow" {
					t.Errorf("%s: record %v", path, rec)
				}
			}
			if before == 0 {
				before = l.settled()
			}
		}
		l.noLeak(before)
		l.noMore()
	})
}

func TestBodilessAnswers(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "12345") })
		l.mux.HandleFunc("/nolength", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
		})
		l.mux.HandleFunc("/204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
		l.mux.HandleFunc("/304", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"x"`); w.WriteHeader(304) })
		l.mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") })
		for _, c := range []struct {
			method, path string
			status       int
			length       int64
		}{
			{"HEAD", "/head", 200, 12345}, {"HEAD", "/nolength", 200, -1}, {"GET", "/204", 204, 0}, {"GET", "/304", 304, 0},
			{"GET", "/empty", 200, 0}, {"POST", "/204", 204, 0}, {"DELETE", "/empty", 200, 0}, {"HEAD", "/204", 204, 0},
		} {
			req, _ := http.NewRequest(c.method, l.on(r, c.path), nil)
			res := l.do(r, req)
			body, err := io.ReadAll(res.Body)
			if res.StatusCode != c.status || len(body) != 0 || err != nil || res.ContentLength != c.length && (c.length > 0 || res.ContentLength > 0) {
				t.Errorf("%s %s: %d, length %d, body %q, %v", c.method, c.path, res.StatusCode, res.ContentLength, body, err)
			}
			if c.path == "/304" && res.Header.Get("Etag") != `"x"` {
				t.Errorf("304's header %v", res.Header)
			}
			if _, guessed := res.Header["Content-Type"]; guessed {
				t.Errorf("%s %s: Content-Type %q was invented", c.method, c.path, res.Header["Content-Type"])
			}
			if rec := l.next(); rec["status"] != float64(c.status) || rec.str("error_class") != "" {
				t.Errorf("record %v", rec)
			}
		}
	})
}

// TestHTTP10Client gets no chunks, an answer that ends with the connection, and no second answer on it.
func TestHTTP10Client(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "two")
	})
	for _, r := range routes[:2] {
		c := l.wire(r, "")
		c.send("GET", "/", "HTTP/1.0", "Connection: keep-alive\r\n", "GET http://plain.ok.test/ HTTP/1.0\r\n\r\n")
		all, err := c.ended()
		head, body, _ := strings.Cut(all, "\r\n\r\n")
		if err != nil || !strings.HasPrefix(head, "HTTP/1.0 200 ") && !strings.HasPrefix(head, "HTTP/1.1 200 ") || strings.Contains(strings.ToLower(head), "transfer-encoding") || body != "one two" {
			t.Errorf("%s: %q %v", r.name, all, err)
		}
		l.next()
		l.noMore()
	}
}

// TestCompressedBodies: they pass untouched, but for those of brokered targets, which are decoded and looked into.
func TestCompressedBodies(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, strings.Repeat("hello ", 1000))
	_ = z.Close()
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			want := "gzip, br"
			if r.scheme == "https" {
				want = "identity"
			}
			if got := req.Header["Accept-Encoding"]; len(got) != 1 || got[0] != want {
				t.Errorf("Accept-Encoding %q", got)
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Etag", `"v1"`)
			if r.scheme != "https" {
				_, _ = w.Write(zipped.Bytes())
				return
			}
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "you sent "+req.Header.Get("Authorization"))
			_ = z.Close()
		})
		req, _ := http.NewRequest("GET", l.on(r, "/"), nil)
		req.Header.Set("Accept-Encoding", "gzip, br")
		res := l.do(r, req)
		if r.scheme == "https" {
			body, err := io.ReadAll(res.Body)
			if err != nil || !strings.HasPrefix(string(body), "you sent Bearer [REDACTED:credential]*") || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Etag") != `W/"v1"` {
				t.Errorf("%.300q; header %v; %v", body, res.Header, err)
			}
			return
		}
		if body, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(body, zipped.Bytes()) || res.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%d bytes, expected %d; header %v; %v", len(body), zipped.Len(), res.Header, err)
		}
	})
}

func TestRedirectsAreTheClientsBusiness(t *testing.T) {
	overRoutes(t, func(t *testing.T, l *lab, r route) {
		var got seen
		l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
			got.add(req)
			http.Redirect(w, req, "http://169.254.169.254/x", http.StatusTemporaryRedirect)
		})
		req, _ := http.NewRequest("POST", l.on(r, "/"), strings.NewReader("body"))
		if res := l.do(r, req); res.StatusCode != 307 || res.Header.Get("Location") != "http://169.254.169.254/x" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		if got.count() != 1 {
			t.Errorf("%d requests", got.count())
		}
	})
}
