package proxy

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
)

// TestSlotIsTheBindings: whatever the tool sends under the name of a credential's header, in any spelling and place, the upstream sees the
// credential alone, at the host that the binding names, over a connection that was verified for that host.
func TestSlotIsTheBindings(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for name, spoil := range map[string]func(*http.Request){
			"as it is":     func(r *http.Request) { r.Header.Set("X-Api-Key", "of-the-tool") },
			"twice":        func(r *http.Request) { r.Header["X-Api-Key"] = []string{"of-the-tool", "of-the-tool"} },
			"lower case":   func(r *http.Request) { r.Header["x-api-key"] = []string{"of-the-tool"} },
			"other case":   func(r *http.Request) { r.Header["X-API-kEY"] = []string{"of-the-tool"} },
			"underscores":  func(r *http.Request) { r.Header["X_Api_Key"] = []string{"of-the-tool"} },
			"one of them":  func(r *http.Request) { r.Header["x_api-key"] = []string{"of-the-tool"} },
			"nominated":    func(r *http.Request) { r.Header["Connection"] = []string{"x-api-key, X_API_KEY"} },
			"in a trailer": func(r *http.Request) { r.Trailer = http.Header{"X-Api-Key": {"of-the-tool"}} },
			"twin trailer": func(r *http.Request) { r.Trailer = http.Header{"X_api_key": {"of-the-tool"}} },
			"as the host":  func(r *http.Request) { r.Header["X-Forwarded-Host"] = []string{"evil.test"} },
		} {
			if h2 && name == "nominated" { // HTTP/2 has no Connection
				continue
			}
			t.Run(name+map[bool]string{true: " h2"}[h2], func(t *testing.T) {
				l := newLab(t, func(f *labFiles) {
					before, rest, _ := strings.Cut(f.config, "      tokenExchange:\n")
					_, after, _ := strings.Cut(rest, "egress:\n")
					f.config = before + "      static: {file: secret, header: X-Api-Key}\negress:\n" + after
				})
				var got seen
				var state *tls.ConnectionState
				l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					state = r.TLS
					got.add(r)
				})
				req, _ := http.NewRequest("POST", l.url("https", "bound.ok.test", "/"), struct{ io.Reader }{strings.NewReader("body")})
				spoil(req)
				res, err := l.client(l.token, h2).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != 200 {
					t.Fatalf("status %d", res.StatusCode)
				}
				r := got.last(t)
				n := 0
				for _, h := range []http.Header{r.Header, r.Trailer} {
					for name, values := range h {
						if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Api-Key") {
							if n += len(values); len(values) != 1 || values[0] != "client-secret-value" {
								t.Errorf("the upstream saw %s: %q", name, values)
							}
						}
					}
				}
				if n != 1 || r.Host != l.target("bound.ok.test") || state.ServerName != "bound.ok.test" || r.Header["X-Forwarded-Host"] != nil {
					t.Errorf("%d values, Host %q, SNI %q", n, r.Host, state.ServerName)
				}
			})
		}
	}
}

// TestNoLineBreakInACredential: neither an issuer nor a file can end a header and begin another.
func TestNoLineBreakInACredential(t *testing.T) {
	for name, token := range map[string]string{"CRLF": `a\r\nX-Evil: 1`, "LF": `a\nX-Evil: 1`, "CR": `a\rX`, "NUL": `a\u0000`, "space": `a b`, "C1": `a\u0085b`} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			var got seen
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { got.add(r) })
			l.issuer.SetFaults(devissuer.Faults{TokenStatus: 200, TokenBody: `{"access_token":"` + token +
				`","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":60}`})
			status, body, err := get(l.client(l.token, false), l.url("https", "bound.ok.test", "/"))
			if err != nil || status != 403 || problemOf(t, body).Code != CredentialDenied || !strings.Contains(body, "bad_answer") {
				t.Errorf("%d %q %v", status, body, err)
			}
			if got.count() != 0 {
				t.Error("the upstream was asked")
			}
		})
	}
}
