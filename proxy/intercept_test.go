package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// seen keeps the requests that the upstream got.
type seen struct {
	mu sync.Mutex
	r  []*http.Request
}

func (s *seen) add(r *http.Request) { s.mu.Lock(); s.r = append(s.r, r); s.mu.Unlock() }

func (s *seen) last(t *testing.T) *http.Request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.r) == 0 {
		t.Fatal("the upstream got no request")
	}
	return s.r[len(s.r)-1]
}

func (s *seen) count() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.r) }

func TestInterceptedCallCarriesTheBindingsToken(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			l := newLab(t)
			var got seen
			l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { got.add(r); _, _ = io.WriteString(w, "hello") })
			req, _ := http.NewRequest("POST", l.url("https", "bound.ok.test", "/v1/x?q=1"), strings.NewReader(`{"customer_email":"a@b.example","n":1}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer of-the-tool")
			req.Header["authorization"] = []string{"Bearer twin"}
			req.Header.Set("Toolgate-Authorization", "Bearer "+l.token)
			req.Header.Set("X-Forwarded-For", "1.2.3.4")
			res, err := l.client(l.token, h2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "hello" {
				t.Fatalf("status %d body %q", res.StatusCode, b)
			}
			wantProto := 1
			if h2 {
				wantProto = 2
			}
			r := got.last(t)
			if r.ProtoMajor != wantProto || res.ProtoMajor != wantProto {
				t.Errorf("protocols: upstream %s, client %s", r.Proto, res.Proto)
			}
			auth := r.Header["Authorization"]
			if len(auth) != 1 {
				t.Fatalf("Authorization at the upstream: %d values", len(auth))
			}
			token, _ := strings.CutPrefix(auth[0], "Bearer ")
			claims, err := l.issuer.Verify(token, "https://bound.ok.test")
			if err != nil {
				t.Fatalf("the upstream's token: %v", err)
			}
			act, _ := claims["act"].(map[string]any)
			if claims["sub"] != "user:alice" || act["sub"] != "workload" || claims["scope"] != "read" {
				t.Errorf("claims %v", claims)
			}
			for _, name := range []string{"Toolgate-Authorization", "Proxy-Authorization", "X-Forwarded-For"} {
				if _, there := r.Header[name]; there {
					t.Errorf("the upstream got %s", name)
				}
			}
			rec := l.next()
			for key, want := range map[string]any{
				"decision": "allow", "kind": "request", "tool": "t1", "subject": "user:alice", "host": "bound.ok.test", "method": "POST",
				"status": 200.0, "credential_binding": "bound", "intercepted": true, "tenant": "acme", "run": "run-1",
			} {
				if rec[key] != want {
					t.Errorf("record: %s is %v, expected %v", key, rec[key], want)
				}
			}
			l.noMore()
			for _, secret := range []string{token, l.token, "of-the-tool", "twin", "a@b.example", "client-secret-value"} {
				if strings.Contains(l.printed(), secret) {
					t.Errorf("%q was printed", secret)
				}
			}
		})
	}
}

func TestRequestMustNameTheTunnelsHost(t *testing.T) {
	l := newLab(t)
	var got seen
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { got.add(r) })
	for _, c := range []struct{ host, code string }{
		{"pass.ok.test:" + port(l.tls), "target_mismatch"}, // allowed, but not through this tunnel: no credential either
		{"evil.test", "target_mismatch"},
		{"bound.ok.test:1", "target_mismatch"},
		{"bound.ok.test", "target_mismatch"}, // means port 443
		{"bound.ok.test@evil.test", "bad_target"},
		{"BOUND.ok.test.:" + port(l.tls), ""},
	} {
		req, _ := http.NewRequest("GET", l.url("https", "bound.ok.test", "/"), nil)
		req.Host = c.host
		before := got.count()
		res, err := l.client(l.token, false).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", c.host, err)
		}
		_ = res.Body.Close()
		if code := res.Header.Get("Toolgate-Denial"); code != c.code {
			t.Errorf("Host %s: code %q, expected %q", c.host, code, c.code)
		}
		if reached := got.count() > before; reached != (c.code == "") {
			t.Errorf("Host %s: reached the upstream: %v", c.host, reached)
		}
		if rec := l.next(); rec.str("code") != c.code {
			t.Errorf("Host %s: record says %q", c.host, rec.str("code"))
		}
	}
}

func TestServerNameMustBeTheTunnelsHost(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	for name, ok := range map[string]bool{"bound.ok.test": true, "BOUND.OK.TEST": true, "pass.ok.test": false, "evil.test": false, "": true} {
		conn := l.connectTo(l.target("bound.ok.test"), "")
		tc := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := tc.Handshake(); (err == nil) != ok {
			t.Errorf("SNI %q: handshake error %v", name, err)
		}
		_ = conn.Close()
		rec := l.next()
		want, code := "client_tls", string(TargetMismatch)
		if ok {
			want, code = "no_request", ""
		}
		if rec.str("error_class") != want || rec.str("code") != code || rec.str("kind") != "tunnel" {
			t.Errorf("SNI %q: record %v", name, rec)
		}
	}
}

// TestProtocolsInsideATunnel: curl -0 offers http/1.0 alone.
func TestProtocolsInsideATunnel(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	target := l.target("bound.ok.test")
	for offered, agreed := range map[string]string{"http/1.0": "http/1.0", "http/1.1": "http/1.1", "": "", "spdy/3": "refused"} {
		conn := l.connectTo(target, "")
		conf := &tls.Config{ServerName: "bound.ok.test", InsecureSkipVerify: true}
		if offered != "" {
			conf.NextProtos = []string{offered}
		}
		tc := tls.Client(conn, conf)
		if err := tc.Handshake(); (err != nil) != (agreed == "refused") {
			t.Errorf("%q: handshake error %v", offered, err)
		} else if err == nil {
			version := "HTTP/1.1"
			if offered == "http/1.0" {
				version = "HTTP/1.0"
			}
			_, _ = fmt.Fprintf(tc, "GET / %s\r\nHost: %s\r\nConnection: close\r\n\r\n", version, target)
			answer, err := io.ReadAll(tc)
			if err != nil || !strings.HasPrefix(string(answer), version+" 200 ") || !strings.HasSuffix(string(answer), "hello") {
				t.Errorf("%q: %q %v", offered, answer, err)
			}
			if got := tc.ConnectionState().NegotiatedProtocol; got != agreed {
				t.Errorf("%q: agreed on %q", offered, got)
			}
		}
		_ = conn.Close()
		_ = l.next()
	}
}

// TestResets: who cancels a third of its requests keeps its connection; who cancels almost all does not.
func TestResets(t *testing.T) {
	for _, test := range []struct {
		name           string
		reset, through int
		cut            bool
	}{
		{"a third", 1, 2, false},
		{"nine of ten", 9, 1, true},
	} {
		cuts := 0
		tun := &tunnel{}
		tun.cut = func(error) { cuts++ }
		r := &http.Request{ProtoMajor: 2}
		gone, answered := &call{}, &call{}
		gone.rec.ErrorClass, answered.rec.Status = "client_gone", http.StatusOK
		for range 2000 {
			for range test.reset {
				tun.tally(gone, r)
			}
			for range test.through {
				tun.tally(answered, r)
			}
		}
		if (cuts > 0) != test.cut {
			t.Errorf("%s: %d cuts", test.name, cuts)
		}
	}
}
