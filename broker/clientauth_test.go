package broker

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func pemOf(t testing.TB, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(t, "PRIVATE KEY", der, err)
}

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestClientSecrets(t *testing.T) {
	secret := writeFile(t, strings.Replace(clientSecret, "ä", "%", 1)+"\n")
	const id, value = "tool gate:1", "client:secret+SECRET/%"
	for name, c := range map[string]struct {
		auth       ClientAuth
		basic      string // user and password before base64
		form       [2]string
		wantSecret bool
	}{
		"none":           {auth: ClientAuth{Method: "none", ClientID: id}, form: [2]string{id, ""}},
		"none, nameless": {auth: ClientAuth{Method: "none"}},
		"basic":          {auth: ClientAuth{Method: "client_secret_basic", ClientID: id, SecretFile: secret}, basic: url.QueryEscape(id) + ":" + url.QueryEscape(value)},
		"post":           {auth: ClientAuth{Method: "client_secret_post", ClientID: id, SecretFile: secret}, form: [2]string{id, value}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, nil)
			bd := exchangeBinding(s.URL)
			bd.TokenExchange.ClientAuth = c.auth
			if _, err := mustExchanger(t, bd).Issue(t.Context(), alice()); err != nil {
				t.Fatal(err)
			}
			got := s.seen()[0]
			if a := [2]string{got.form.Get("client_id"), got.form.Get("client_secret")}; a != c.form {
				t.Errorf("form %q, want %q", a, c.form)
			}
			want := ""
			if c.basic != "" {
				want = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.basic))
			}
			if h := got.header.Get("Authorization"); h != want {
				t.Errorf("authorization %q, want %q", h, want)
			}
		})
	}
}

func TestClientSecretRotates(t *testing.T) {
	s := newTokenServer(t, nil)
	path := writeFile(t, "old")
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "client_secret_post", ClientID: "c", SecretFile: path}
	is := mustExchanger(t, bd)
	for _, want := range []string{"old", "new"} {
		replace(t, path, want)
		if _, err := is.Issue(t.Context(), alice()); err != nil {
			t.Fatal(err)
		}
		seen := s.seen()
		if got := seen[len(seen)-1].form.Get("client_secret"); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	replace(t, path, "two\nlines")
	_, err := is.Issue(t.Context(), alice())
	wantReason(t, err, SecretUnreadable)
}

func TestPrivateKeyJWT(t *testing.T) {
	p256, r := ecKey(t, elliptic.P256()), rsaKey(t, 2048)
	p384, p521 := ecKey(t, elliptic.P384()), ecKey(t, elliptic.P521())
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(p256)
	for name, c := range map[string]struct {
		pem string
		pub crypto.PublicKey
		alg jose.SignatureAlgorithm
	}{
		"RSA":         {pkcs8(t, r), r.Public(), jose.RS256},
		"RSA, PKCS 1": {pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r), nil), r.Public(), jose.RS256},
		"P-256":       {pkcs8(t, p256), p256.Public(), jose.ES256},
		"P-256 SEC 1": {pemOf(t, "EC PRIVATE KEY", sec1, err), p256.Public(), jose.ES256},
		"P-384":       {pkcs8(t, p384), p384.Public(), jose.ES384},
		"P-521":       {pkcs8(t, p521), p521.Public(), jose.ES512},
		"Ed25519":     {pkcs8(t, ed), ed.Public(), jose.EdDSA},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, nil)
			bd := exchangeBinding(s.URL + "/token")
			bd.TokenExchange.ClientAuth = ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyFile: writeFile(t, c.pem), KeyID: "k1"}
			if _, err := mustExchanger(t, bd).Issue(t.Context(), alice()); err != nil {
				t.Fatal(err)
			}
			form := s.seen()[0].form
			if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || form.Get("client_id") != "toolgate" {
				t.Errorf("form %v", form)
			}
			claims := verifyAssertion(t, form.Get("client_assertion"), c.pub, c.alg)
			if claims.Issuer != "toolgate" || claims.Subject != "toolgate" || claims.ID == "" ||
				len(claims.Audience) != 1 || claims.Audience[0] != s.URL+"/token" {
				t.Errorf("claims %+v", claims)
			}
			if life := claims.Expiry.Time().Sub(claims.IssuedAt.Time()); life <= 0 || life > time.Minute {
				t.Errorf("the assertion lives %v", life)
			}
		})
	}
}

func verifyAssertion(t *testing.T, assertion string, pub crypto.PublicKey, alg jose.SignatureAlgorithm) jwt.Claims {
	t.Helper()
	tok, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{alg})
	if err != nil {
		t.Fatal(err)
	}
	if tok.Headers[0].KeyID != "k1" {
		t.Errorf("kid %q", tok.Headers[0].KeyID)
	}
	var claims jwt.Claims
	if err := tok.Claims(pub, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestAssertionAudience(t *testing.T) {
	s := newTokenServer(t, nil)
	key := ecKey(t, elliptic.P256())
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.ClientAuth = ClientAuth{
		Method: "private_key_jwt", ClientID: "toolgate", KeyID: "k1", KeyFile: writeFile(t, pkcs8(t, key)), Audience: "https://as.test",
	}
	if _, err := mustExchanger(t, bd).Issue(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	claims := verifyAssertion(t, s.seen()[0].form.Get("client_assertion"), key.Public(), jose.ES256)
	if len(claims.Audience) != 1 || claims.Audience[0] != "https://as.test" {
		t.Errorf("aud %v", claims.Audience)
	}
}

// A server that remembers each jti, as RFC 7523 section 3 lets it, must not refuse a retry.
func TestAssertionIsFreshOnRetry(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	var mu sync.Mutex
	used := map[string]bool{}
	s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, n int) {
		claims := verifyAssertion(t, r.PostFormValue("client_assertion"), key.Public(), jose.ES256)
		mu.Lock()
		replayed := used[claims.ID]
		used[claims.ID] = true
		mu.Unlock()
		switch {
		case replayed:
			write(w, 401, `{"error":"invalid_client"}`)
		case n == 1:
			write(w, 503, ``)
		default:
			writeGood(w)
		}
	})
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyID: "k1", KeyFile: writeFile(t, pkcs8(t, key))}
	if _, err := mustExchanger(t, bd).Issue(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	if len(used) != 2 {
		t.Errorf("%d assertions", len(used))
	}
}

func TestSigningKeyRotates(t *testing.T) {
	s := newTokenServer(t, nil)
	path := writeFile(t, pkcs8(t, ecKey(t, elliptic.P256())))
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyID: "k1", KeyFile: path}
	is := mustExchanger(t, bd)
	next := ecKey(t, elliptic.P384())
	replace(t, path, pkcs8(t, next))
	if _, err := is.Issue(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	verifyAssertion(t, s.seen()[0].form.Get("client_assertion"), next.Public(), jose.ES384)
	replace(t, path, "no key")
	_, err := is.Issue(t.Context(), alice())
	wantReason(t, err, SecretUnreadable)
}

func TestBadKeys(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	for name, c := range map[string]struct{ pem, want string }{
		"empty":       {"", "no PEM block"},
		"public key":  {pemOf(t, "PUBLIC KEY", []byte{1}, nil), "private key in PEM"},
		"certificate": {pemOf(t, "CERTIFICATE", []byte{1}, nil), "private key in PEM"},
		"garbage":     {pemOf(t, "PRIVATE KEY", []byte{1}, nil), "cannot be read"},
		"RSA 1024":    {pkcs8(t, rsaKey(t, 1024)), "2048"},
		"P-224":       {pkcs8(t, ecKey(t, elliptic.P224())), "P-256"},
	} {
		if _, err := parseKey([]byte(c.pem)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
