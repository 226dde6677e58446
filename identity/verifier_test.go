package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

var ctx = context.Background()

func TestVerify(t *testing.T) {
	w := newWorld(t, nil)
	token := w.mint(t, map[string]any{"jti": "j-1", "roles": []string{"support", "Billing Admin"}, "aud": []string{"other", "toolgate"}})
	got, err := w.v.Verify(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	want := &Caller{
		Issuer: w.idp.URL(), Subject: "user:alice", Tenant: "acme", Agent: "helper", Task: "t-1", Run: "r-1", Scopes: []string{"orders:read", "refunds:draft"},
		Roles: []string{"support", "Billing Admin"}, TokenID: "j-1", TokenHash: sha256.Sum256([]byte(token)), Expiry: w.Now().Add(5 * time.Minute), end: w.Now().Add(5*time.Minute + 30*time.Second),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	again, err := w.v.Verify(ctx, token)
	if err != nil || again != got {
		t.Errorf("not from the cache: %p %p %v", again, got, err)
	}
	if _, err := w.v.Verify(ctx, ""); err != ErrNoToken {
		t.Errorf("no token: %v", err)
	}
}

func TestNew(t *testing.T) {
	good := Issuer{URL: "https://idp.example", Audiences: []string{"toolgate"}}
	for _, tc := range []struct {
		name   string
		change func(*Issuer)
		ok     bool
	}{
		{"good", func(*Issuer) {}, true},
		{"all algorithms", func(i *Issuer) { i.Algorithms = asymmetric }, true},
		{"leeway at the limit", func(i *Issuer) { i.Leeway = time.Minute }, true},
		{"http to loopback", func(i *Issuer) { i.URL = "http://127.0.0.1:1" }, true},
		{"name with key URL", func(i *Issuer) { i.URL, i.JWKSURL = "kubernetes/serviceaccount", "https://idp.example/keys" }, true},
		{"no audience", func(i *Issuer) { i.Audiences = nil }, false},
		{"empty audience", func(i *Issuer) { i.Audiences = []string{""} }, false},
		{"empty party", func(i *Issuer) { i.AuthorizedParties = []string{""} }, false},
		{"HS256", func(i *Issuer) { i.Algorithms = []string{"ES256", "HS256"} }, false},
		{"none", func(i *Issuer) { i.Algorithms = []string{"none"} }, false},
		{"nOnE", func(i *Issuer) { i.Algorithms = []string{"nOnE"} }, false},
		{"empty algorithm", func(i *Issuer) { i.Algorithms = []string{""} }, false},
		{"leeway", func(i *Issuer) { i.Leeway = time.Minute + 1 }, false},
		{"negative leeway", func(i *Issuer) { i.Leeway = -1 }, false},
		{"negative floor", func(i *Issuer) { i.MinRefresh = -1 }, false},
		{"soft over hard", func(i *Issuer) { i.SoftTTL = 25 * time.Hour }, false},
		{"empty URL", func(i *Issuer) { i.URL = "" }, false},
		{"plain http", func(i *Issuer) { i.URL = "http://idp.example" }, false},
		{"plain http keys", func(i *Issuer) { i.JWKSURL = "http://idp.example" }, false},
		{"user in URL", func(i *Issuer) { i.URL = "https://a@idp.example" }, false},
		{"not a URL", func(i *Issuer) { i.URL = "idp.example" }, false},
		{"file", func(i *Issuer) { i.JWKSURL = "file:///etc/keys" }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good
			tc.change(&c)
			if _, err := New([]Issuer{c}); (err == nil) != tc.ok {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := New([]Issuer{good, good}); err == nil {
		t.Error("a duplicate issuer is accepted")
	}
	v, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	token := w.mint(t, nil)
	_, err = v.Verify(ctx, token)
	wantReason(t, err, "issuer", token)
}

func TestCacheEnds(t *testing.T) {
	w := newWorld(t, nil)
	token := w.mint(t, map[string]any{"exp": w.Now().Unix() + 5})
	first, err := w.v.Verify(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	w.advance(34 * time.Second) // exp + leeway - 1 s
	if again, err := w.v.Verify(ctx, token); err != nil || again != first {
		t.Errorf("inside the leeway: %v", err)
	}
	w.advance(time.Second)
	wantReason(t, w.verify(token), "expired", token)

	token = w.mint(t, nil)
	if first, err = w.v.Verify(ctx, token); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Minute)
	if again, err := w.v.Verify(ctx, token); err != nil || again == first {
		t.Errorf("cached for over a minute: %v", err)
	}
}

// TestTokenHash: it is the token's own, from the cache as well.
func TestTokenHash(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.mint(t, nil), w.mint(t, map[string]any{"jti": "another"})
	for _, token := range []string{one, two, one, two} {
		who, err := w.v.Verify(t.Context(), token)
		if err != nil || who.TokenHash != sha256.Sum256([]byte(token)) {
			t.Errorf("%v, %v", who, err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	e := &cached{caller: &Caller{}, keys: w.v.order[0].keys, until: w.Now()}
	for i := range cacheEntries + 10 {
		w.v.cache.put(cacheKey(fmt.Sprint(i)), e)
	}
	if n := w.v.cache.lru.Len(); n != cacheEntries {
		t.Errorf("%d entries", n)
	}
}

// A token that another issuer of ours signed, for any of its own iss spellings, is refused and fetches nothing.
func TestIssuerIsExact(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.verify(w.mint(t, nil)); err != nil {
		t.Fatal(err)
	}
	discoveries, fetches := w.idp.Count(devissuer.PathDiscovery), w.fetches()
	trap := startIssuer(t, w.clock)
	for _, iss := range []any{
		trap.URL(), "http://169.254.169.254/", "https://evil.test", w.idp.URL() + "/", strings.ToUpper(w.idp.URL()), " " + w.idp.URL(), "", nil, 5, []string{w.idp.URL()},
	} {
		header := map[string]any{"jku": trap.URL() + "/jwks", "x5u": trap.URL() + "/x5u"}
		token := w.mintWith(t, header, map[string]any{"iss": iss}, "ES256")
		wantReason(t, w.verify(token), "issuer", token)
	}
	if n := trap.Count(devissuer.PathJWKS) + trap.Count(devissuer.PathDiscovery) + trap.Count("/x5u"); n != 0 {
		t.Errorf("%d requests to where the token points", n)
	}
	if w.idp.Count(devissuer.PathDiscovery) != discoveries || w.fetches() != fetches {
		t.Error("a token of an unknown issuer made us fetch")
	}
}

// Two trusted issuers, one of them hostile: it must not speak for the other.
func TestIssuersAreSeparate(t *testing.T) {
	c := newClock()
	good, evil := startIssuer(t, c), startIssuer(t, c)
	v := newTestVerifier(t, c,
		Issuer{URL: good.URL(), Audiences: []string{"toolgate"}},
		Issuer{URL: evil.URL(), Audiences: []string{"toolgate"}})
	if err := v.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for name, kid := range map[string]any{"its own kid": evil.Keys().Keys[0].KeyID, "the other's kid": good.Keys().Keys[0].KeyID, "no kid": nil} {
		token, err := evil.MintWith(map[string]any{"kid": kid}, claims(map[string]any{"iss": good.URL()}), "ES256")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = v.Verify(ctx, token); err == nil {
			t.Errorf("%s: accepted", name)
		}
		wantNoText(t, err, token)
	}
	for _, idp := range []*devissuer.Issuer{good, evil} {
		token, err := idp.Mint(claims(nil))
		if err != nil {
			t.Fatal(err)
		}
		if caller, err := v.Verify(ctx, token); err != nil || caller.Issuer != idp.URL() {
			t.Errorf("caller %v, error %v", caller, err)
		}
	}
}

func TestOversizedTokensAreCheap(t *testing.T) {
	w := newWorld(t, nil)
	for name, token := range map[string]string{
		"dots": strings.Repeat(".", 1_000_000), "5 MiB": strings.Repeat("a", 5<<20), "one byte over": strings.Repeat("a", maxToken+1),
		"dots within": strings.Repeat(".", maxToken), "no dot": strings.Repeat("a", maxToken), "braces": "{" + strings.Repeat(".", 100) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			wantReason(t, w.verify(token), "malformed", "")
			if n := testing.AllocsPerRun(10, func() { _ = w.verify(token) }); n > 8 {
				t.Errorf("%v allocations", n)
			}
		})
	}
	if _, _, ok := FromProxyAuthorization("Bearer " + strings.Repeat(".", 1_000_000)); ok {
		t.Error("a header of 1 MB is read")
	}
	big := w.mint(t, map[string]any{"x": strings.Repeat("a", maxToken*3/4)})
	wantReason(t, w.verify(big), "malformed", big)
	// A deep payload of the largest size, and one with a great many names.
	for _, payload := range []string{`{"a":` + strings.Repeat("[", 8000), `{"iss":"` + w.idp.URL() + `"` + strings.Repeat(`,"a":1`, 1500) + "}"} {
		if err := w.verify(w.sign(t, payload)); err == nil {
			t.Error("accepted")
		}
	}
}

func TestConcurrentVerifications(t *testing.T) {
	w := newWorld(t, nil)
	tokens := make([]string, 20)
	for i := range tokens {
		tokens[i] = w.mint(t, map[string]any{"task_id": fmt.Sprint(i)})
	}
	junk := w.mintWith(t, map[string]any{"kid": "junk"}, nil, "ES256")
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if i%10 == 9 {
				if _, err := w.v.Verify(ctx, junk); err == nil {
					t.Error("junk accepted")
				}
				return
			}
			caller, err := w.v.Verify(ctx, tokens[i%20])
			if err != nil || caller.Task != fmt.Sprint(i%20) {
				t.Errorf("caller %v, error %v", caller, err)
			}
		})
	}
	all.Wait()
	if n := w.fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

func TestErrorsAreClosed(t *testing.T) {
	err := error(&InvalidError{Reason: "key"})
	if err.Error() != "token not accepted: key" || errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func cutLast(token string) (signed, signature string, ok bool) {
	i := strings.LastIndexByte(token, '.')
	return token[:i], token[i+1:], i > 0
}
