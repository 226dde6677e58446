package config

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestKeyClient: it trusts the roots that it was given and no others, follows no redirect, and uses no proxy of the
// environment.
func TestKeyClient(t *testing.T) {
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")

	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	client := keyClient(pool)
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusFound || asked != 1 {
		t.Errorf("status %d after %d requests", resp.StatusCode, asked)
	}
	if tr, ok := client.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("the client may use a proxy")
	}

	stranger := keyClient(x509.NewCertPool())
	defer stranger.CloseIdleConnections()
	if resp, err := stranger.Get(server.URL); err == nil {
		_ = resp.Body.Close()
		t.Error("a certificate under other roots was accepted")
	}
}
