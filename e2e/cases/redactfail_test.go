//go:build linux

package cases

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// parrot is an endpoint that fails and repeats all that it was sent, in every place that an error has.
type parrot struct {
	url string

	mu     sync.Mutex
	status int
	kind   string
	heard  []string // values of forms and credentials
}

func newParrot(t *testing.T, l *lab) *parrot {
	t.Helper()
	p := &parrot{}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(u.Host))
	p.url = s.URL
	return p
}

func (p *parrot) set(status int, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.kind = status, kind
}

// secrets are the values that it was sent and that nobody else may see.
func (p *parrot) secrets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

func (p *parrot) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	defer p.mu.Unlock()
	var said strings.Builder
	for name, values := range r.PostForm {
		fmt.Fprintf(&said, "%s=%s ", name, values[0])
		switch name {
		case "subject_token", "actor_token", "client_secret", "client_assertion", "token":
			p.heard = append(p.heard, values[0])
		}
	}
	if _, secret, ok := r.BasicAuth(); ok {
		said.WriteString(secret + " ")
		p.heard = append(p.heard, secret)
	}
	said.WriteString(r.Header.Get("Authorization"))
	text := said.String()
	rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="`+text+`"`)
	rw.Header().Set("X-Error", text)
	if p.status/100 == 3 {
		rw.Header().Set("Location", "/next?"+r.PostForm.Encode())
	}
	if p.kind == "json" {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(p.status)
		_, _ = fmt.Fprintf(rw, `{"error":%q,"error_description":%q,"error_uri":"https://idp.test/?x=%s","access_token":%q}`, text, text, url.QueryEscape(text), text)
		return
	}
	rw.Header().Set("Content-Type", "text/html")
	rw.WriteHeader(p.status)
	_, _ = io.WriteString(rw, "<h1>"+text)
}

// failedLogins lets every way of proving who one is fail.
func failedLogins(t *testing.T, w *world) {
	t.Run("callers", func(t *testing.T) { refusedCallers(t, w) })
	t.Run("exchanges", func(t *testing.T) { failedExchanges(t, w) })
}

// parts are what of a token nobody may see: all of it, what it says, its signature.
func parts(token string) []string {
	out := []string{token}
	for i, p := range strings.Split(token, ".") {
		if i > 0 && len(p) > 16 {
			out = append(out, p)
		}
	}
	return out
}

func refusedCallers(t *testing.T, w *world) {
	p := newParrot(t, w.lab)
	p.set(http.StatusBadRequest, "json")
	spans, traced := w.collected(t)
	k := w.lab.files(t, talkative, traced, believing(fmt.Sprintf("introspection: {url: %q, clientAuth: {method: client_secret_post, clientID: c, secretFile: secret-i}}", p.url)))
	k.write(t, "secret-i", "quiet-client-secret-stone")
	k.start(t)
	stranger, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	foreign, err := stranger.Mint(map[string]any{"sub": "user:alice", "aud": "toolgate", "tenant": "A"})
	if err != nil {
		t.Fatal(err)
	}
	good := k.token(t, nil, nil, "ES256")
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	now := time.Now().Unix()
	tokens := map[string]string{
		"expired": k.token(t, nil, map[string]any{"exp": now - 3600}, "ES256"), "early": k.token(t, nil, map[string]any{"nbf": now + 3600}, "ES256"),
		"audience": k.token(t, nil, map[string]any{"aud": "other"}, "ES256"), "issuer": foreign, "none": k.token(t, nil, nil, "none"), "hmac": k.token(t, nil, nil, "HS256"),
		"type": k.token(t, map[string]any{"typ": "quiet-type-stone"}, nil, "ES256"), "kid": k.token(t, map[string]any{"kid": "unknown"}, nil, "ES256"),
		"claims": k.token(t, nil, map[string]any{"tenant": "quiet\x00tenant-stone"}, "ES256"), "cut": good[:len(good)-8], "turned": head + "." + payload + "." + signature[4:] + signature[:4],
		"two parts": head + "." + payload, "four parts": good + ".quiet-part-of-token-stone", "opaque": "quiet-opaque-token-of-somebody-stone", "junk": "eyJhbGciOi.quiet-junk-stone.%%",
		"spaced": "quiet-first-half-stone quiet-second-half-stone", "revealing kid": k.token(t, map[string]any{"kid": "quiet-kid-secret-stone"}, nil, "ES256"),
	}
	told := ""
	var secrets []string
	for name, token := range tokens {
		secrets = append(secrets, parts(token)...)
		for _, auth := range []string{"Bearer " + token, "bearer " + token, basic(token), "Basic " + base64.StdEncoding.EncodeToString([]byte(token+":")), "Token " + token, token} {
			for _, line := range []string{"GET http://api.ok.test/ HTTP/1.1", "CONNECT api.ok.test:443 HTTP/1.1"} {
				method, _, _ := strings.Cut(line, " ")
				got := k.once(t, method, line+"\r\nHost: api.ok.test:443\r\nProxy-Authorization: "+auth+"\r\nConnection: close\r\n\r\n")
				got.is(t, name, http.StatusProxyAuthRequired, http.StatusServiceUnavailable, http.StatusBadRequest)
				told += fmt.Sprint(got.header) + got.body
			}
		}
	}
	hidden(t, "what the tool is told", told, secrets...)
	hidden(t, "what was said", k.told(t, spans), append(secrets, p.secrets()...)...)
	if len(p.secrets()) == 0 {
		t.Error("nothing was introspected")
	}
}

func failedExchanges(t *testing.T, w *world) {
	key, err := x509.MarshalPKCS8PrivateKey(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newParrot(t, w.lab)
	spans, traced := w.collected(t)
	auths := map[string]string{
		"post": "{method: client_secret_post, clientID: c, secretFile: secret-i}", "basic": "{method: client_secret_basic, clientID: c, secretFile: secret-i}",
		"jwt": "{method: private_key_jwt, clientID: c, keyFile: client-key.pem}", "workload": "{method: workload_token, tokenFile: workload}",
	}
	k := w.lab.files(t, talkative, traced, func(s *settings) {
		for name, auth := range auths {
			s.bindings += fmt.Sprintf("    - {name: %s, tools: [t1], targets: [\"%s.wild.test:443\"], tokenExchange: {tokenURL: \"%s/%s\", audience: x, actorTokenFile: workload, clientAuth: %s}}\n", name, name, p.url, name, auth)
		}
	})
	k.write(t, "secret-i", "quiet-client-secret-stone")
	k.write(t, "workload", k.mint(t, map[string]any{"sub": "workload:t1"}))
	k.write(t, "client-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	k.start(t)
	told := ""
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusFound, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		for _, kind := range []string{"json", "html"} {
			p.set(status, kind)
			for name := range auths {
				token := k.mint(t, map[string]any{"sub": "user:alice", "tenant": "A", "task_id": fmt.Sprint(status, kind, name), "run_id": "r"})
				for h, client := range map[string]*http.Client{"h1": k.client(t, k.t1, token, false), "h2": k.client(t, k.t1, token, true)} {
					res, err := client.Get("https://" + name + ".wild.test/")
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if res.StatusCode < 400 {
						t.Errorf("%s, %d %s over %s: %d %s", name, status, kind, h, res.StatusCode, body)
					}
					told += fmt.Sprint(res.Header) + string(body)
				}
			}
		}
	}
	var secrets []string
	for _, s := range p.secrets() {
		secrets = append(secrets, parts(s)...)
	}
	if !strings.Contains(fmt.Sprint(secrets), "quiet-client-secret-stone") || len(secrets) < 100 {
		t.Errorf("the endpoint was sent %d secrets", len(secrets))
	}
	hidden(t, "what the tool is told", told, secrets...)
	all := k.told(t, spans)
	says(t, "what was said", all, "credential_denied", "credential_unavailable", "endpoint_")
	hidden(t, "what was said", all, secrets...)
}
