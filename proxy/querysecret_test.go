package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// keyInQuery binds bound.ok.test, and raw.ok.test if it is there, to a secret in the query.
func keyInQuery(f *labFiles) {
	before, rest, _ := strings.Cut(f.config, "      tokenExchange:")
	_, after, _ := strings.Cut(rest, "egress:\n")
	f.config = before + "      static: {file: secret, query: api_key}\negress:\n" + after
	if strings.Contains(f.manifest, "raw.ok.test:") {
		f.config = replaceOnce(f.config, "targets: [", `targets: ["`+f.allowed("raw.ok.test:")+`", `)
	}
}

// A secret in a URL must not be where URLs are written: records, the log of payloads, causes of failures.
func TestQuerySecretIsWrittenNowhere(t *testing.T) {
	for _, r := range intercepted {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t, keyInQuery)
			var uri string
			l.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
				uri = req.RequestURI
				w.Header().Set("Location", "https://"+req.Host+req.RequestURI)
				w.WriteHeader(http.StatusFound)
			})
			res := l.do(r, l.getRequest(r, "/p?a=1;api%5Fkey=mine&API_KEY=mine"))
			if uri != "/p?a=1&api_key=client-secret-value" {
				t.Errorf("the upstream got %q", uri)
			}
			if at := res.Header.Get("Location"); res.StatusCode != 302 || strings.Contains(at, "client-secret-value") {
				t.Errorf("%d %q", res.StatusCode, at)
			}
			_ = l.next()
			if text := l.printed(); strings.Contains(text, "client-secret-value") {
				t.Errorf("written:\n%s", text)
			}
		})
	}
}

func TestQuerySecretOfAFailedCall(t *testing.T) {
	for _, header := range []http.Header{{}, {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}} {
		l, at := rawUpstream(t, func(c net.Conn) { _ = c.Close() }, keyInQuery)
		req, err := http.NewRequest("GET", "https://"+at+"/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := l.client(l.token, false).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if rec := l.next(); res.StatusCode < 500 || rec.str("credential_binding") != "bound" {
			t.Errorf("%d %v", res.StatusCode, rec)
		}
		if text := l.printed(); strings.Contains(text, "client-secret-value") {
			t.Errorf("written:\n%s", text)
		}
	}
}
