package proxy

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/toolgate/toolgate/redact"
)

// TestAsterisk: "*" is no path. Only OPTIONS may ask for it, a rule with paths does not cover it, and no server of ours answers it by
// itself.
func TestAsterisk(t *testing.T) {
	l := newLab(t, replaced(t, `methods: [GET, POST], paths: ["/ok/*", "/ok"]`, `methods: [GET, OPTIONS], paths: ["/*", "/**"]`))
	for _, c := range []struct {
		method, host string
		status       int
		code         Code
	}{
		{"GET", "ruled.ok.test", 400, BadTarget},
		{"GET", "bound.ok.test", 400, BadTarget},
		{"POST", "bound.ok.test", 400, BadTarget},
		{"options", "bound.ok.test", 400, BadTarget},
		{"OPTIONS", "ruled.ok.test", 403, PathNotAllowed},
		{"OPTIONS", "bound.ok.test", 200, ""}, // the upstream's net/http does answer it
	} {
		for _, h2 := range []bool{false, true} {
			req := &http.Request{Method: c.method, URL: &url.URL{Scheme: "https", Host: l.target(c.host), Path: "*"}, Header: http.Header{}}
			res, err := l.client(l.token, h2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode != c.status || res.Header.Get("Toolgate-Denial") != string(c.code) {
				t.Errorf("%s * at %s, h2 %v: %d %v", c.method, c.host, h2, res.StatusCode, res.Header)
			}
			rec := l.next()
			if rec.str("code") != string(c.code) || rec["status"] != float64(c.status) || c.code == "" && (rec.str("path") != redact.Hash("*") || rec["dial_attempts"] != 1.0) {
				t.Errorf("record %v", rec)
			}
		}
	}
	l.noMore()
}
