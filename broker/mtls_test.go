package broker

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

func certBinding(t *testing.T) (Binding, string, string) {
	t.Helper()
	cert, key := certificate(t, "toolgate")
	certFile, keyFile := writeFile(t, cert), writeFile(t, key)
	return Binding{
		Name: "orders", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"}, MTLS: &MTLS{CertFile: certFile, KeyFile: keyFile},
	}, certFile, keyFile
}

func TestClientCertificateForTheUpstream(t *testing.T) {
	bd, certFile, keyFile := certBinding(t)
	b, found := mustNew(t, bd, Options{})
	bd.MTLS.CertFile = "elsewhere" // it keeps nothing of its caller's
	c := mustGet(t, b, found, alice())
	cert := c.Certificate()
	if ref := c.Ref(); cert == nil || ref.Kind != "mtls" || !ref.Expires.Equal(cert.TLS.Leaf.NotAfter) || found.Kind() != "mtls" || len(sent(c)) != 0 {
		t.Fatalf("%+v %v", ref, sent(c))
	}
	if again := mustGet(t, b, found, alice()).Certificate(); again != cert {
		t.Error("an unchanged certificate is parsed again")
	}
	newCert, newKey := certificate(t, "toolgate")
	if err := os.WriteFile(certFile, []byte(newCert), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.Credential(t.Context(), found, alice()) // the key is still the old one
	wantReason(t, err, SecretUnreadable)
	if err := os.WriteFile(keyFile, []byte(newKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := mustGet(t, b, found, alice()).Certificate(); now.ID == cert.ID {
		t.Error("the certificate was not replaced")
	}
	noLeak(t, c, newKey, "PRIVATE KEY")
	bd, _, _ = certBinding(t)
	bd.MTLS.KeyFile = keyFile
	if _, err := New([]Binding{bd}, Options{}); err == nil {
		t.Error("a key that does not fit")
	}
}

// TestCertificateBoundToken: a token that the issuer bound to another certificate than the upstream will see is of no use, and one for
// an old certificate must not be taken from the cache.
func TestCertificateBoundToken(t *testing.T) {
	bound := ""
	s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		token := fakeJWT(fmt.Sprintf(`{"sub":"user:alice","aud":"https://api.orders.test","jti":"%d","cnf":{"x5t#S256":%q},"exp":%d}`, n, bound, time.Now().Add(time.Hour).Unix()))
		write(w, 200, fmt.Sprintf(`{"access_token":%q,"issued_token_type":%q,"token_type":"Bearer","expires_in":3600}`, token, typeAccessToken))
	})
	bd, certFile, keyFile := certBinding(t)
	pair := bd.MTLS
	bd = exchangeBinding(s.URL)
	bd.MTLS = pair
	b, found := mustNew(t, bd, Options{})
	current := func() *ClientCertificate {
		c, err := b.bound[found].pair.get()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	bound = "another"
	_, err := b.Credential(t.Context(), found, alice())
	wantReason(t, err, WrongKey)
	bound = current().x5t
	c := mustGet(t, b, found, alice())
	if c.Ref().Kind != "token_exchange" || c.Certificate() != current() || sent(c).Get("Authorization") == "" || found.Kind() != "token_exchange" {
		t.Errorf("%+v", c.Ref())
	}
	if again := mustGet(t, b, found, alice()); !again.Ref().Cached || again.Certificate() == nil {
		t.Error("it is not kept")
	}
	newCert, newKey := certificate(t, "toolgate")
	for path, text := range map[string]string{certFile: newCert, keyFile: newKey} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bound = current().x5t
	if after := mustGet(t, b, found, alice()); after.Ref().Cached || after.Certificate() != current() {
		t.Error("a token that is bound to the old certificate is used with the new one")
	}
}
