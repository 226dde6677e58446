package proxy

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
)

// TestUpstreamThatResetsAnUpload: the transport then closes the request's body, whose waiting read fails. That failure must not
// be taken for the client's.
func TestUpstreamThatResetsAnUpload(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadFull(req.Body, make([]byte, 4))
		panic(http.ErrAbortHandler)
	})
	client := l.client(l.token, true)
	for range 20 { // it is a race of two goroutines
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, "some") }()
		req, _ := http.NewRequest("POST", l.on(routes[2], "/"), pr)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Close(), pw.Close()
		rec := l.next()
		if res.StatusCode != 502 || rec.str("error_class") != "upstream_protocol" || rec.str("decision") != "allow" {
			t.Fatalf("status %d, record %v", res.StatusCode, rec)
		}
	}
	l.noMore()
}

// TestClientLeavesBeforeTheCredential: neither is the call denied nor the issuer at fault.
func TestClientLeavesBeforeTheCredential(t *testing.T) {
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			if status, _, err := get(l.client(l.token, r.h2), l.on(r, "/")); status != 200 || err != nil { // the issuer's keys are known now
				t.Fatal(status, err)
			}
			_ = l.next()
			l.issuer.SetFaults(devissuer.Faults{Hang: true})
			before := l.issuer.Count(devissuer.PathToken)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", l.on(r, "/"), nil)
			client, done := l.client(l.mint(map[string]any{"sub": "user:bob"}), r.h2), make(chan error, 1)
			go func() {
				_, err := client.Do(req)
				done <- err
			}()
			eventually(t, "the issuer is asked", func() bool { return l.issuer.Count(devissuer.PathToken) > before })
			cancel()
			if err := <-done; err == nil {
				t.Error("the client got an answer")
			}
			rec := l.next()
			if rec.str("error_class") != "client_gone" || rec.str("decision") != "allow" || rec.str("code") != "" || rec["status"] != nil {
				t.Errorf("record %v", rec)
			}
		})
	}
}
