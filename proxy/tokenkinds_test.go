package proxy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/killswitch"
)

// introspected is the lab's issuer with opaque tokens.
func introspected(t *testing.T) labOption {
	return func(f *labFiles) {
		replaced(t, "audiences: [toolgate]}", `audiences: [toolgate], introspection: {url: "ISSUER/introspect", clientAuth: {method: client_secret_basic, clientID: toolgate, secretFile: secret}}}`)(f)
		_, rest, _ := strings.Cut(f.config, `issuer: "`)
		url, _, _ := strings.Cut(rest, `"`)
		f.config = strings.Replace(f.config, "ISSUER", url, 1)
	}
}

// TestOpaqueToken: a token that only its issuer can read opens what its claims allow, for as long as the issuer and the kill switch say.
func TestOpaqueToken(t *testing.T) {
	l := newLab(t, introspected(t))
	claims := map[string]any{"sub": "user:alice", "aud": "toolgate", "tenant": "acme", "agent_id": "agent-1", "task_id": "task-1", "scope": "read"}
	target := l.url("http", "plain.ok.test", "/")
	token := l.issuer.MintOpaque(claims)
	if status, body, err := get(l.client(token, false), target); err != nil || status != 404 {
		t.Fatalf("%d %q %v", status, body, err)
	}
	if status, body, err := get(l.client("opaque.unknown", false), target); err != nil || status != 407 || problemOf(t, body).Detail != "The task token is not accepted: inactive." {
		t.Errorf("unknown: %d %q %v", status, body, err)
	}
	claims["scope"] = "other"
	if status, body, err := get(l.client(l.issuer.MintOpaque(claims), false), target); err != nil || status != 403 || problemOf(t, body).Code != InsufficientScope {
		t.Errorf("without the scope: %d %q %v", status, body, err)
	}
	l.issuer.SetFaults(devissuer.Faults{IntrospectStatus: 500})
	if status, body, err := get(l.client("opaque.other", false), target); err != nil || status != 503 || problemOf(t, body).Code != NotReady {
		t.Errorf("issuer down: %d %q %v", status, body, err)
	}
	l.revoke(killswitch.Selector{Task: []string{"task-1"}})
	if status, body, err := get(l.client(token, false), target); err != nil || status != 403 || problemOf(t, body).Code != Revoked {
		t.Errorf("revoked, with the answer held: %d %q %v", status, body, err)
	}
}

// TestProofsOfPossession: a token that is bound to a key opens nothing, whether it comes alone or with a proof that is good for this very
// request; nor does the scheme of such tokens.
func TestProofsOfPossession(t *testing.T) {
	l := newLab(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := jose.JSONWebKey{Key: &key.PublicKey}
	thumb, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	token := l.mint(map[string]any{"cnf": map[string]any{"jkt": b64(thumb)}})
	target := l.url("http", "plain.ok.test", "/")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	ath := sha256.Sum256([]byte(token))
	proof, err := jwt.Signed(signer).Claims(map[string]any{"jti": "1", "htm": "GET", "htu": target, "iat": time.Now().Unix(), "ath": b64(ath[:])}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		header http.Header
		detail string
	}{
		"alone":           {http.Header{"Proxy-Authorization": {"Bearer " + token}}, "bound"},
		"with its proof":  {http.Header{"Proxy-Authorization": {"Bearer " + token}, "Dpop": {proof}}, "bound"},
		"by its scheme":   {http.Header{"Proxy-Authorization": {"DPoP " + token}, "Dpop": {proof}}, "neither Bearer"},
		"in our header":   {http.Header{"Toolgate-Authorization": {"Bearer " + token}, "Dpop": {proof}}, "bound"},
		"scheme, as ours": {http.Header{"Toolgate-Authorization": {"DPoP " + token}, "Dpop": {proof}}, "carries no token"},
	} {
		client := l.client("", false)
		client.Transport = withHeader{client.Transport, tc.header}
		status, body, err := get(client, target)
		if err != nil || status != http.StatusProxyAuthRequired || !strings.Contains(problemOf(t, body).Detail, tc.detail) {
			t.Errorf("%s: %d %q %v", name, status, body, err)
		}
	}
	if status, _, err := get(l.client(l.token, false), target); err != nil || status != 404 {
		t.Errorf("a bearer token: %d %v", status, err)
	}
}

// withHeader adds header fields to each request.
type withHeader struct {
	next   http.RoundTripper
	header http.Header
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range w.header {
		r.Header[name] = values
	}
	return w.next.RoundTrip(r)
}
