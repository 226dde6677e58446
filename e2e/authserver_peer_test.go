package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/toolgate/toolgate/devissuer"
)

const jwtTokenType = "urn:ietf:params:oauth:token-type:jwt"

// exchangeForm is a request that the authorization server grants.
func (w *world) exchangeForm(t *testing.T) url.Values {
	t.Helper()
	workload, err := os.ReadFile(filepath.Join(w.dir, "workload.jwt"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return url.Values{
		"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token": {w.task(t, "user:alice")}, "subject_token_type": {jwtTokenType},
		"actor_token": {string(workload)}, "actor_token_type": {jwtTokenType},
		"audience": {ordersAudience}, "scope": {ordersScope},
	}
}

type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
}

func post(t *testing.T, tokenURL string, form url.Values, secret string) (int, tokenAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if secret != "" {
		req.SetBasicAuth(clientID, secret)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var a tokenAnswer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, a
}

// A peer that grants everything would prove nothing about the sidecar.
func TestAuthServerRefuses(t *testing.T) {
	w := newWorld(t, "", independent("client_secret_basic"))
	status, a := post(t, w.as.tokenURL, w.exchangeForm(t), clientSecret)
	if status != http.StatusOK {
		t.Fatalf("a good exchange: %d %s", status, a.Error)
	}
	c, err := w.up.verify(a.AccessToken)
	if err != nil || c.Sub != "user:alice" || c.Act.Sub != workloadSub || c.Scope != ordersScope {
		t.Fatalf("the token says %+v, %v", c, err)
	}
	tasks, err := devissuer.New(devissuer.Options{URL: w.tasks.URL()})
	if err != nil {
		t.Fatal(err)
	}
	forger := &world{tasks: tasks} // says that it is the same issuer, and has other keys
	past := time.Now().Add(-time.Minute).Unix()
	tests := []struct {
		name   string
		change func(url.Values)
		secret string
		want   string
	}{
		{"wrong secret", func(url.Values) {}, "guess", "invalid_client"},
		{"unknown audience", func(f url.Values) { f.Set("audience", "https://unknown.test") }, clientSecret, "invalid_target"},
		{"inherited property as audience", func(f url.Values) { f.Set("audience", "constructor") }, clientSecret, "invalid_target"},
		{"two targets", func(f url.Values) { f.Set("resource", "https://other.test") }, clientSecret, "invalid_target"},
		{"wider scope", func(f url.Values) { f.Set("scope", ordersScope+" orders:admin") }, clientSecret, "invalid_scope"},
		{"no actor", func(f url.Values) { f.Del("actor_token"); f.Del("actor_token_type") }, clientSecret, "invalid_request"},
		{"another actor than may_act", func(f url.Values) {
			f.Set("actor_token", w.mint(t, map[string]any{"sub": "system:serviceaccount:agents:other", "aud": workloadAud}))
		}, clientSecret, "invalid_request"},
		{"expired subject", func(f url.Values) {
			f.Set("subject_token", w.mint(t, map[string]any{"sub": "user:alice", "aud": "toolgate", "exp": past}))
		}, clientSecret, "invalid_request"},
		{"forged subject", func(f url.Values) {
			f.Set("subject_token", forger.mint(t, map[string]any{"iss": w.tasks.URL(), "sub": "user:alice", "aud": "toolgate"}))
		}, clientSecret, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			form := w.exchangeForm(t)
			tt.change(form)
			if status, a := post(t, w.as.tokenURL, form, tt.secret); a.Error != tt.want || a.AccessToken != "" {
				t.Errorf("%d %q, want error %q", status, a.Error, tt.want)
			}
		})
	}
}

// The sidecar must draw a new jti for each assertion; this peer notices when it does not.
func TestAuthServerRefusesReplayedAssertion(t *testing.T) {
	w := newWorld(t, "", independent("private_key_jwt"))
	form := w.exchangeForm(t)
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", w.assertion(t))
	if status, a := post(t, w.as.tokenURL, form, ""); status != http.StatusOK {
		t.Fatalf("first use: %d %s", status, a.Error)
	}
	if status, a := post(t, w.as.tokenURL, form, ""); a.Error != "invalid_client" {
		t.Errorf("second use: %d %q, want invalid_client", status, a.Error)
	}
}

// assertion is a client assertion (RFC 7523) under the sidecar's key.
func (w *world) assertion(t *testing.T) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: readKey(t, filepath.Join(w.dir, "client-key.pem"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: clientID, Subject: clientID, Audience: jwt.Audience{w.as.issuer}, ID: "only-once",
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
