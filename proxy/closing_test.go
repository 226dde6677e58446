package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// The sidecar's end is the end of what its issuers keep open: a login at Vault and the lease that hangs on it.
func TestShutdownClosesTheBroker(t *testing.T) {
	var revoked atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/jwt/login", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"auth": {"client_token": "login-token", "lease_duration": 600}}`)
	})
	mux.HandleFunc("GET /v1/database/creds/orders", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"lease_id": "lease", "lease_duration": 600, "data": {"username": "leased", "password": "leased-password-value"}}`)
	})
	mux.HandleFunc("POST /v1/auth/token/revoke-self", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") == "login-token" {
			revoked.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	vault := httptest.NewServer(mux)
	t.Cleanup(func() { // after the lab's own
		vault.Close()
		if n := revoked.Load(); n != 1 {
			t.Errorf("the login was revoked %d times", n)
		}
	})
	l := newLab(t, func(f *labFiles) {
		before, rest, _ := strings.Cut(f.config, "      tokenExchange:")
		_, after, _ := strings.Cut(rest, "egress:\n")
		f.config = before + `      vault: {address: "` + vault.URL + `", auth: {role: r}, secret: {path: database/creds/orders, userField: username, passwordField: password}}
egress:
` + after
	})
	var user, password string
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { user, password, _ = r.BasicAuth() })
	if status, _, err := get(l.client(l.token, false), l.url("https", "bound.ok.test", "/")); err != nil || status != 200 || user != "leased" || password != "leased-password-value" {
		t.Fatal(status, err, user)
	}
	if rec := l.next(); rec.str("credential_kind") != "vault" {
		t.Errorf("record %v", rec)
	}
}
