package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestUnusualRequestsAreHandedOn: whatever the form of a request, on whatever place in its connection, in one piece or byte for byte, it is
// carried, and what follows it too.
func TestUnusualRequestsAreHandedOn(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.Method, r.URL, r.Header.Get("X-Long"), string(body), err)
	})
	host := "Host: " + l.target("bound.ok.test") + "\r\n"
	plain := "GET /plain HTTP/1.1\r\n" + host + "\r\n"
	long := strings.Repeat("b", 2*maxPlainRequest)
	for _, c := range []struct{ name, request, answer string }{
		{"plain", plain, "GET/plain<nil>"},
		{"a body", "POST /p HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "POST/phello<nil>"},
		{"a long body", fmt.Sprintf("POST /p HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", host, len(long), long), "POST/p" + long + "<nil>"},
		{"a line too many", "POST /p HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello\r\n", "POST/phello<nil>"},
		{"chunks", "POST /p HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "POST/phello<nil>"},
		{"a long head", "GET /p HTTP/1.1\r\n" + host + "X-Long: " + long + "\r\n\r\n", "GET/p" + long + "<nil>"},
		{"an absolute URL", "GET https://" + l.target("bound.ok.test") + "/p HTTP/1.1\r\n" + host + "\r\n", "GET/p<nil>"},
		{"a bare line feed", "GET /p HTTP/1.1\n" + host + "\r\n", "GET/p<nil>"},
	} {
		for _, pieces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in pieces %v", c.name, pieces), func(t *testing.T) {
				w := l.wire(routes[1], "")
				if all := plain + c.request + plain; !pieces {
					_, _ = io.WriteString(w, all)
				} else {
					go func() {
						for i := 0; i < len(all); i += 1 + i/64 {
							_, _ = io.WriteString(w, all[i:min(len(all), i+1+i/64)])
						}
					}()
				}
				for _, want := range []string{"GET/plain<nil>", c.answer, "GET/plain<nil>"} {
					res := w.response()
					if body, err := io.ReadAll(res.Body); res.StatusCode != 200 || res.Close || string(body) != want || err != nil {
						t.Fatalf("%d %v %.80q %v", res.StatusCode, res.Header, body, err)
					}
					if rec := l.next(); rec.str("decision") != "allow" || rec.str("kind") != "request" {
						t.Errorf("record %v", rec)
					}
				}
				_ = w.Close()
				l.noMore()
			})
		}
	}
}

// watched makes the sweep's rounds at once.
func (l *lab) watched() {
	for _, o := range l.proxy.tunnels.list(func(o *open) bool { return o.rest != nil }) {
		o.rest()
	}
}

// TestClientIsWatched while its request takes its time: when it leaves, the call ends; what it sends early is its next request.
func TestClientIsWatched(t *testing.T) {
	for _, body := range []string{"", "hello"} {
		t.Run("body "+body, func(t *testing.T) {
			l := newLab(t)
			arrived, left := make(chan struct{}), make(chan struct{}, 1)
			release := make(chan struct{})
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				arrived <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
					left <- struct{}{}
				}
			})
			w := l.wire(routes[1], "")
			for range 2 { // the second request is sent while the first is watched
				w.send("POST", "/", "HTTP/1.1", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)
			}
			for range 2 {
				<-arrived
				l.watched()
				l.watched()
				release <- struct{}{}
				if res := w.response(); res.StatusCode != 200 || res.Close {
					t.Fatalf("%d %v", res.StatusCode, res.Header)
				}
				_ = l.next()
			}
			w.send("POST", "/", "HTTP/1.1", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)
			<-arrived
			l.watched()
			_ = w.Close()
			<-left
			if rec := l.next(); rec.str("error_class") != "client_gone" || rec.str("decision") != "allow" {
				t.Errorf("record %v", rec)
			}
			l.noMore()
		})
	}
}

// TestSweepWatches: nobody need ask for it.
func TestSweepWatches(t *testing.T) {
	l := newLab(t)
	arrived, left := make(chan struct{}), make(chan struct{})
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", l.on(routes[1], "/"), nil)
	go func() {
		if res, err := l.client(l.token, false).Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-arrived
	cancel()
	<-left
	if rec := l.next(); rec.str("error_class") != "client_gone" {
		t.Errorf("record %v", rec)
	}
}

// TestWatchWaitsForTheBody: as long as the body is being read, nobody else reads; nor does anybody between two requests.
func TestWatchWaitsForTheBody(t *testing.T) {
	body := &lengthBody{}
	body.left.Store(1)
	for _, k := range []*h1Client{{phase: busy, body: body}, {phase: between}, {phase: idling}, {phase: closed}} {
		if k.watch(); k.watched != nil {
			t.Errorf("in phase %d, with body %v, the connection is watched", k.phase, k.body)
		}
	}
}
