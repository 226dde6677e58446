package devissuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func start(t *testing.T, o Options) *Issuer {
	t.Helper()
	i, stop, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	i.RegisterClient(Client{ID: "toolgate", Secret: "s:e c", Scopes: []string{"orders:read", "orders:write"}, Audiences: []string{"https://orders.example", "https://a.example/x"}})
	return i
}

func mint(t *testing.T, i *Issuer, claims map[string]any) string {
	t.Helper()
	token, err := i.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends a form with client_secret_basic unless the form authenticates itself.
func post(t *testing.T, i *Issuer, path string, form url.Values) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, i.URL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if !form.Has("client_assertion") && !form.Has("client_secret") && !form.Has("client_id") {
		req.SetBasicAuth("toolgate", url.QueryEscape("s:e c"))
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body map[string]any
	_ = json.NewDecoder(res.Body).Decode(&body)
	return res.StatusCode, body
}

func exchangeForm(t *testing.T, i *Issuer) url.Values {
	return url.Values{
		"grant_type": {grantExchange}, "audience": {"https://orders.example"}, "scope": {"orders:read"},
		"subject_token": {mint(t, i, map[string]any{"sub": "user:alice", "aud": "toolgate"})}, "subject_token_type": {typeJWT},
		"actor_token": {mint(t, i, map[string]any{"sub": "sidecar", "aud": i.URL()})}, "actor_token_type": {typeJWT},
	}
}

func TestExchange(t *testing.T) {
	i := start(t, Options{})
	form := exchangeForm(t, i)
	status, body := post(t, i, PathToken, form)
	if status != 200 || body["token_type"] != "Bearer" || body["issued_token_type"] != typeAccessToken || body["expires_in"] != 300.0 || body["scope"] != "orders:read" {
		t.Fatalf("status %d, body %v", status, body)
	}
	token := body["access_token"].(string)
	claims, err := i.Verify(token, "https://orders.example")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"iss": i.URL(), "sub": "user:alice", "aud": "https://orders.example", "client_id": "toolgate", "scope": "orders:read", "act": map[string]any{"sub": "sidecar"}}
	for k, v := range want {
		if !reflect.DeepEqual(claims[k], v) {
			t.Errorf("%s = %v, want %v", k, claims[k], v)
		}
	}
	if claims["exp"].(float64)-claims["iat"].(float64) != 300 {
		t.Errorf("life is %v s", claims["exp"].(float64)-claims["iat"].(float64))
	}
	if !slices.Equal(i.Issued(), []string{claims["jti"].(string)}) || i.Count(PathToken) != 1 || i.Last().Get("scope") != "orders:read" {
		t.Errorf("issued %v, count %d, last %v", i.Issued(), i.Count(PathToken), i.Last())
	}
	if _, err := i.Verify(token, "https://other.example"); err == nil {
		t.Error("accepted for another audience")
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || jws.Signatures[0].Header.ExtraHeaders["typ"] != "at+jwt" {
		t.Errorf("typ: %v, %v", jws, err)
	}
	if status, _ := post(t, i, PathRevoke, url.Values{"token": {token}}); status != 200 || !i.Revoked(i.Issued()[0]) {
		t.Errorf("revoke: status %d", status)
	}
	if _, err := i.Verify(token, ""); err == nil {
		t.Error("accepted after revocation")
	}
}

func TestExchangeRefusals(t *testing.T) {
	i := start(t, Options{})
	other := start(t, Options{})
	i.AllowScopes("user:bob", "orders:read")
	old := mint(t, i, map[string]any{"sub": "user:alice", "exp": 1})
	for _, tc := range []struct {
		name   string
		change func(url.Values)
		code   string
	}{
		{"grant type", func(f url.Values) { f.Set("grant_type", "client_credentials") }, "unsupported_grant_type"},
		{"no subject", func(f url.Values) { f.Del("subject_token") }, "invalid_request"},
		{"no subject type", func(f url.Values) { f.Del("subject_token_type") }, "invalid_request"},
		{"two subjects", func(f url.Values) { f.Add("subject_token", "x") }, "invalid_request"},
		{"expired subject", func(f url.Values) { f.Set("subject_token", old) }, "invalid_request"},
		{"other issuer", func(f url.Values) { f.Set("subject_token", mint(t, other, map[string]any{"sub": "x"})) }, "invalid_request"},
		{"no sub", func(f url.Values) { f.Set("subject_token", mint(t, i, nil)) }, "invalid_request"},
		{"actor without type", func(f url.Values) { f.Del("actor_token_type") }, "invalid_request"},
		{"actor type without actor", func(f url.Values) { f.Del("actor_token") }, "invalid_request"},
		{"may_act another", func(f url.Values) {
			f.Set("subject_token", mint(t, i, map[string]any{"sub": "a", "may_act": map[string]any{"sub": "z"}}))
		}, "invalid_request"},
		{"may_act, no actor", func(f url.Values) {
			f.Set("subject_token", mint(t, i, map[string]any{"sub": "a", "may_act": map[string]any{"sub": "sidecar"}}))
			f.Del("actor_token")
			f.Del("actor_token_type")
		}, "invalid_request"},
		{"audience", func(f url.Values) { f.Set("audience", "https://evil.example") }, "invalid_target"},
		{"no target", func(f url.Values) { f.Del("audience") }, "invalid_target"},
		{"relative resource", func(f url.Values) { f.Set("resource", "/x") }, "invalid_target"},
		{"resource with fragment", func(f url.Values) { f.Set("resource", "https://a.example/x#") }, "invalid_target"},
		{"scope", func(f url.Values) { f.Set("scope", "orders:read admin:all") }, "invalid_scope"},
		{"scope of the subject", func(f url.Values) {
			f.Set("subject_token", mint(t, i, map[string]any{"sub": "user:bob"}))
			f.Set("scope", "orders:write")
		}, "invalid_scope"},
		{"requested type", func(f url.Values) { f.Set("requested_token_type", typeIDToken) }, "invalid_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			form := exchangeForm(t, i)
			tc.change(form)
			if status, body := post(t, i, PathToken, form); status != 400 || body["error"] != tc.code {
				t.Errorf("status %d, body %v", status, body)
			}
		})
	}
	if n := len(i.Issued()); n != 0 {
		t.Errorf("%d tokens issued", n)
	}
}

func TestExchangeVariants(t *testing.T) {
	i := start(t, Options{})
	form := exchangeForm(t, i)
	form.Del("scope")
	form.Set("resource", "https://a.example/x")
	form.Set("subject_token", mint(t, i, map[string]any{"sub": "user:alice", "act": map[string]any{"sub": "agent"}, "may_act": map[string]any{"sub": "sidecar"}}))
	_, body := post(t, i, PathToken, form)
	claims, err := i.Verify(body["access_token"].(string), "https://a.example/x")
	if err != nil || claims["scope"] != "orders:read orders:write" {
		t.Fatalf("claims %v, err %v", claims, err)
	}
	if want := map[string]any{"sub": "sidecar", "act": map[string]any{"sub": "agent"}}; !reflect.DeepEqual(claims["act"], want) {
		t.Errorf("act = %v", claims["act"])
	}
	form.Del("actor_token")
	form.Del("actor_token_type")
	form.Set("subject_token", mint(t, i, map[string]any{"sub": "user:alice"}))
	if _, body = post(t, i, PathToken, form); body["access_token"] == nil {
		t.Fatalf("no actor: %v", body)
	}
	if claims, _ := i.Verify(body["access_token"].(string), ""); claims["act"] != nil {
		t.Errorf("act without an actor: %v", claims["act"])
	}
}

// assertion signs a client assertion for the client "jwt".
func assertion(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) url.Values {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	compact, _ := jws.CompactSerialize()
	return url.Values{"client_assertion": {compact}, "client_assertion_type": {assertionJWT}}
}

func TestClientAuthentication(t *testing.T) {
	i := start(t, Options{})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrong, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.RegisterClient(Client{ID: "jwt", PublicKey: &key.PublicKey, Audiences: []string{"https://orders.example"}, Scopes: []string{"orders:read"}})
	i.RegisterClient(Client{ID: "public", Public: true, Audiences: []string{"https://orders.example"}, Scopes: []string{"orders:read"}})
	good := func(over map[string]any) map[string]any {
		return override(map[string]any{"iss": "jwt", "sub": "jwt", "aud": i.TokenURL(), "exp": time.Now().Unix() + 60, "jti": newID()}, over)
	}
	replay := assertion(t, key, good(nil))
	twice := assertion(t, key, good(nil))
	twice.Set("client_secret", "s:e c")
	for _, tc := range []struct {
		name   string
		auth   url.Values
		status int
	}{
		{"basic", url.Values{}, 200},
		{"post", url.Values{"client_id": {"toolgate"}, "client_secret": {"s:e c"}}, 200},
		{"post, wrong", url.Values{"client_id": {"toolgate"}, "client_secret": {"s"}}, 401},
		{"unknown", url.Values{"client_id": {"x"}, "client_secret": {""}}, 401},
		{"no secret", url.Values{"client_id": {"toolgate"}}, 401},
		{"public", url.Values{"client_id": {"public"}}, 200},
		{"client without a secret", url.Values{"client_id": {"jwt"}, "client_secret": {""}}, 401},
		{"assertion", replay, 200},
		{"replay", replay, 401},
		{"issuer as aud", assertion(t, key, good(map[string]any{"aud": i.URL()})), 200},
		{"two methods", twice, 401},
		{"aud", assertion(t, key, good(map[string]any{"aud": "https://evil.example"})), 401},
		{"two auds", assertion(t, key, good(map[string]any{"aud": []string{i.URL(), "https://evil.example"}})), 401},
		{"sub", assertion(t, key, good(map[string]any{"sub": "toolgate"})), 401},
		{"long", assertion(t, key, good(map[string]any{"exp": time.Now().Unix() + 400})), 401},
		{"expired", assertion(t, key, good(map[string]any{"exp": time.Now().Unix() - 1})), 401},
		{"no jti", assertion(t, key, good(map[string]any{"jti": nil})), 401},
		{"wrong key", assertion(t, wrong, good(nil)), 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			form := exchangeForm(t, i)
			maps.Copy(form, tc.auth)
			status, body := post(t, i, PathToken, form)
			if status != tc.status || (status == 401 && body["error"] != "invalid_client") {
				t.Errorf("status %d, body %v", status, body)
			}
		})
	}
}

func get(t *testing.T, i *Issuer, path string) (*http.Response, string) {
	t.Helper()
	res, err := client.Get(i.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestKeySet(t *testing.T) {
	i := start(t, Options{Algorithms: []string{"ES256", "EdDSA"}})
	var doc map[string]any
	if _, body := get(t, i, PathDiscovery); json.Unmarshal([]byte(body), &doc) != nil || doc["issuer"] != i.URL() || doc["jwks_uri"] != i.URL()+PathJWKS {
		t.Fatalf("discovery: %s", body)
	}
	for _, alg := range []string{"ES256", "EdDSA", "ES384", "ES512", "RS256", "PS512"} {
		token, err := i.MintWith(nil, map[string]any{"sub": "a"}, alg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Verify(token, ""); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
	token := mint(t, i, nil)
	for _, alg := range []string{"none", "nOnE", "HS256", ""} {
		bad, err := i.MintWith(nil, nil, alg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Verify(bad, ""); err == nil {
			t.Errorf("%q accepted", alg)
		}
	}
	before := i.Keys().Keys
	if err := i.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Verify(token, ""); err == nil {
		t.Error("accepted after rotation")
	}
	var set jose.JSONWebKeySet
	if _, body := get(t, i, PathJWKS); json.Unmarshal([]byte(body), &set) != nil || len(set.Keys) != len(before) {
		t.Fatalf("key set: %s", body)
	}
	for _, k := range before {
		if len(set.Key(k.KeyID)) != 0 {
			t.Errorf("%s is still published", k.KeyID)
		}
	}
}

func TestFaults(t *testing.T) {
	i := start(t, Options{})
	i.SetFaults(Faults{JWKSStatus: 503, RetryAfter: "7"})
	if res, _ := get(t, i, PathJWKS); res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" {
		t.Errorf("status %d", res.StatusCode)
	}
	i.SetFaults(Faults{JWKSBody: `{"keys":[]}`})
	if res, body := get(t, i, PathJWKS); res.StatusCode != 200 || body != `{"keys":[]}` {
		t.Errorf("body %q", body)
	}
	i.SetFaults(Faults{Redirect: "https://evil.example/"})
	if res, _ := get(t, i, PathDiscovery); res.StatusCode != 307 || res.Header.Get("Location") != "https://evil.example/" {
		t.Errorf("status %d", res.StatusCode)
	}
	i.SetFaults(Faults{HugeBody: 1 << 20})
	if _, body := get(t, i, PathJWKS); len(body) != 1<<20 || !json.Valid([]byte(body)) {
		t.Errorf("%d bytes", len(body))
	}
	i.SetFaults(Faults{Reset: true})
	if _, err := client.Get(i.URL() + PathJWKS); err == nil {
		t.Error("no reset")
	}
	i.SetFaults(Faults{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, i.URL()+PathJWKS, nil)
	done := make(chan error)
	go func() { _, err := client.Do(req); done <- err }()
	for i.Count(PathJWKS) < 5 { // until the request hangs inside
		select {
		case err := <-done:
			t.Fatalf("answered: %v", err)
		default:
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("no hang")
	}
}

func TestTokenFaults(t *testing.T) {
	i := start(t, Options{})
	i.SetFaults(Faults{
		WrongAudience: "https://evil.example", ExpiresIn: json.RawMessage(`"300"`), GrantScope: "admin:all", TokenType: "N_A",
		IssuedTokenType: Omit, OmitAct: true,
	})
	_, body := post(t, i, PathToken, exchangeForm(t, i))
	if body["expires_in"] != "300" || body["scope"] != "admin:all" || body["token_type"] != "N_A" || body["issued_token_type"] != nil {
		t.Errorf("body %v", body)
	}
	claims, err := i.Verify(body["access_token"].(string), "https://evil.example")
	if err != nil || claims["act"] != nil || claims["scope"] != "admin:all" {
		t.Errorf("claims %v, err %v", claims, err)
	}
	i.SetFaults(Faults{ExpiresIn: json.RawMessage(Omit), TokenStatus: 0})
	if _, body = post(t, i, PathToken, exchangeForm(t, i)); body["access_token"] == nil || body["expires_in"] != nil {
		t.Errorf("body %v", body)
	}
	i.SetFaults(Faults{TokenStatus: 429})
	if status, body := post(t, i, PathToken, exchangeForm(t, i)); status != 429 || body["error"] == nil {
		t.Errorf("status %d, body %v", status, body)
	}
}

// TestExchangeForeignSubject: with Subject, tokens of the issuer that it knows are exchanged, and no others; it is not asked about actors.
func TestExchangeForeignSubject(t *testing.T) {
	cluster := start(t, Options{})
	i := start(t, Options{Subject: func(token string) (map[string]any, error) { return cluster.Verify(token, "toolgate") }})
	for _, tc := range []struct {
		name   string
		change func(url.Values)
		status int
	}{
		{"its own", func(url.Values) {}, 200},
		{"the other's", func(f url.Values) {
			f.Set("subject_token", mint(t, cluster, map[string]any{"sub": "system:serviceaccount:a:b", "aud": "toolgate"}))
		}, 200},
		{"the other's for another audience", func(f url.Values) {
			f.Set("subject_token", mint(t, cluster, map[string]any{"sub": "system:serviceaccount:a:b", "aud": "else"}))
		}, 400},
		{"the other's as actor", func(f url.Values) {
			f.Set("actor_token", mint(t, cluster, map[string]any{"sub": "system:serviceaccount:a:b", "aud": "toolgate"}))
		}, 400},
	} {
		form := exchangeForm(t, i)
		tc.change(form)
		if status, body := post(t, i, PathToken, form); status != tc.status {
			t.Errorf("%s: status %d, body %v", tc.name, status, body)
		}
	}
}
