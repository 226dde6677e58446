package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// cluster is an API server's end of token issuing: it shows its keys to whoever has its own token, and signs tokens of pods.
type cluster struct {
	*clock
	idp    *devissuer.Issuer
	server *httptest.Server

	mu    sync.Mutex
	token string            // that it takes; empty: it asks for none
	seen  map[string]string // Authorization by path, of the last request
	keys  string            // jwks_uri; empty: its own
}

const clusterName = "https://kubernetes.default.svc"

func newCluster(t *testing.T) *cluster {
	c := &cluster{clock: newClock(), seen: map[string]string{}}
	c.idp = startIssuer(t, c.clock, "RS256")
	c.server = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.server.Close)
	return c
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r.URL.Path] = r.Header.Get("Authorization")
	if c.token != "" && c.seen[r.URL.Path] != "Bearer "+c.token {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case "/openid/v1/jwks":
		_ = json.NewEncoder(w).Encode(c.idp.Keys())
	case "/.well-known/openid-configuration":
		keys := c.keys
		if keys == "" {
			keys = c.server.URL + "/openid/v1/jwks"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": c.server.URL, "jwks_uri": keys})
	}
}

func (c *cluster) demand(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
}

func (c *cluster) sent(path string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, asked := c.seen[path]
	return got, asked
}

// client trusts the servers' certificate, as caFile makes it.
func (c *cluster) client(others ...*httptest.Server) *http.Client {
	pool := x509.NewCertPool()
	for _, s := range append(others, c.server) {
		pool.AddCert(s.Certificate())
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// projected is what a kubelet puts into a projected volume: no typ, a list of audiences, an hour, and who it is for in an object
// whose name has a dot in it.
func (c *cluster) projected(t *testing.T, issuer string, over map[string]any) string {
	t.Helper()
	now := c.Now().Unix()
	claims := map[string]any{
		"iss": issuer, "aud": []string{"toolgate"}, "sub": "system:serviceaccount:shop:refunds", "exp": now + 3607, "iat": now, "nbf": now,
		"jti": "4f2b9a57-6c1e-4f0c-9a53-0b8f0d1c2e3f",
		"kubernetes.io": map[string]any{
			"namespace":      "shop",
			"node":           map[string]any{"name": "node-1", "uid": "1d1f6c5e-0000-4000-8000-000000000001"},
			"pod":            map[string]any{"name": "refunds-7c9d8f6b5-x2x4q", "uid": "1d1f6c5e-0000-4000-8000-000000000002"},
			"serviceaccount": map[string]any{"name": "refunds", "uid": "1d1f6c5e-0000-4000-8000-000000000003"},
		},
	}
	for k, v := range over {
		claims[k] = v
	}
	token, err := c.idp.MintWith(map[string]any{"typ": nil}, claims, "RS256")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// clusterClaims are those by which a pod is the caller.
var clusterClaims = ClaimMap{
	Tenant: []string{"kubernetes.io.namespace"}, Agent: []string{"kubernetes.io.serviceaccount.name"}, Task: []string{"kubernetes.io.pod.name"},
}

func TestProjectedToken(t *testing.T) {
	c := newCluster(t)
	v := newTestVerifier(t, c.clock, Issuer{
		URL: clusterName, JWKSURL: c.server.URL + "/openid/v1/jwks", Audiences: []string{"toolgate"}, MaxLifetime: 2 * time.Hour,
		Claims: clusterClaims, Client: c.client(),
	})
	caller, err := v.Verify(ctx, c.projected(t, clusterName, nil))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join([]string{caller.Subject, caller.Tenant, caller.Agent, caller.Task}, " ")
	if got != "system:serviceaccount:shop:refunds shop refunds refunds-7c9d8f6b5-x2x4q" {
		t.Errorf("caller %s", got)
	}
	if auth, asked := c.sent("/openid/v1/jwks"); !asked || auth != "" {
		t.Errorf("without a token file %q was sent", auth)
	}
	for name, tc := range map[string]struct {
		over map[string]any
		want string
	}{
		"the API server's own audience": {map[string]any{"aud": []string{clusterName}}, "audience"},
		"a namespace of two meanings":   {map[string]any{"kubernetes.io.namespace": "other"}, "claim"},
		"a case variant":                {map[string]any{"Kubernetes.io": map[string]any{"namespace": "other"}}, "claim"},
		"a number for a namespace":      {map[string]any{"kubernetes.io": map[string]any{"namespace": 1}}, "claim"},
		"a year":                        {map[string]any{"exp": c.Now().Unix() + 365*86400}, "lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			token := c.projected(t, clusterName, tc.over)
			_, err := v.Verify(ctx, token)
			wantReason(t, err, tc.want, token)
		})
	}
}

// TestKeysByToken: keys that only known callers see are fetched with the token of a file, which is read again.
func TestKeysByToken(t *testing.T) {
	for _, how := range []string{"key URL", "discovery"} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t)
			c.demand("first")
			file := filepath.Join(t.TempDir(), "token")
			write(t, file, "first\n", time.Minute)
			issuer := Issuer{URL: c.server.URL, Audiences: []string{"toolgate"}, Claims: clusterClaims, Client: c.client(), TokenFile: file}
			if how == "key URL" {
				issuer.URL, issuer.JWKSURL = clusterName, c.server.URL+"/openid/v1/jwks"
			}
			v := newTestVerifier(t, c.clock, issuer)
			if _, err := v.Verify(ctx, c.projected(t, issuer.URL, nil)); err != nil {
				t.Fatal(err)
			}
			// The next fetch is under another token, and the one after it under none that can be read.
			c.demand("second")
			write(t, file, "second", time.Second*30)
			c.advance(25 * time.Hour)
			if _, err := v.Verify(ctx, c.projected(t, issuer.URL, nil)); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"", "se\ncond"} {
				write(t, file, bad, time.Second*10)
				c.advance(25 * time.Hour)
				_, err := v.Verify(ctx, c.projected(t, issuer.URL, nil))
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the token file has no usable token") {
					t.Errorf("%q: %v", bad, err)
				}
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			c.advance(25 * time.Hour)
			if _, err := v.Verify(ctx, c.projected(t, issuer.URL, nil)); !errors.Is(err, ErrUnavailable) {
				t.Errorf("no file: %v", err)
			}
		})
	}
}

// TestTokenOfAnotherOrigin: discovery may send us elsewhere for the keys, but our token stays.
func TestTokenOfAnotherOrigin(t *testing.T) {
	c, elsewhere := newCluster(t), newCluster(t)
	c.demand("ours")
	c.keys = elsewhere.server.URL + "/openid/v1/jwks"
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "ours", time.Minute)
	elsewhere.idp = c.idp
	v := newTestVerifier(t, c.clock, Issuer{
		URL: c.server.URL, Audiences: []string{"toolgate"}, Client: c.client(elsewhere.server), TokenFile: file,
	})
	if _, err := v.Verify(ctx, c.projected(t, c.server.URL, nil)); err != nil {
		t.Fatal(err)
	}
	if got, asked := c.sent("/.well-known/openid-configuration"); !asked || got != "Bearer ours" {
		t.Errorf("the issuer got %q", got)
	}
	if got, asked := elsewhere.sent("/openid/v1/jwks"); !asked || got != "" {
		t.Errorf("another origin got %q", got)
	}
}

func TestOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://IDP.example":            "https://idp.example:443",
		"https://idp.example:443/x?y":    "https://idp.example:443",
		"https://idp.example:8443":       "https://idp.example:8443",
		"http://127.0.0.1/":              "http://127.0.0.1:80",
		"https://[::1]:6443/openid/jwks": "https://[::1]:6443",
		"kubernetes/serviceaccount":      "",
	} {
		if got := originOf(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
