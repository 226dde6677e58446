package broker

import (
	"crypto/elliptic"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/redact"
)

// realIssuer starts an issuer that knows us by a key, and returns it with a binding and a caller for it.
func realIssuer(t *testing.T) (*devissuer.Issuer, Binding, Subject) {
	t.Helper()
	idp, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	key := ecKey(t, elliptic.P256())
	idp.RegisterClient(devissuer.Client{
		ID: "toolgate", PublicKey: key.Public(), Scopes: []string{"orders:read", "refunds:draft"}, Audiences: []string{"https://api.orders.test"},
	})
	mint := func(claims map[string]any) string {
		tok, err := idp.Mint(claims)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	bd := exchangeBinding(idp.TokenURL())
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyFile: writeFile(t, pkcs8(t, key))}
	bd.TokenExchange.Impersonate = false
	bd.TokenExchange.ActorTokenFile = writeFile(t, mint(map[string]any{"sub": "sidecar", "aud": idp.URL()}))
	s := alice()
	s.Issuer = idp.URL()
	s.Token = redact.New(mint(map[string]any{"sub": "user:alice", "aud": "toolgate", "may_act": map[string]any{"sub": "sidecar"}}))
	return idp, bd, s
}

func TestRealExchange(t *testing.T) {
	idp, bd, s := realIssuer(t)
	b, found := mustNew(t, bd, Options{})
	c := mustGet(t, b, found, s)
	claims, err := idp.Verify(c.value.Reveal(), "https://api.orders.test")
	if err != nil {
		t.Fatal(err)
	}
	act, _ := claims["act"].(map[string]any)
	if claims["sub"] != "user:alice" || act["sub"] != "sidecar" || claims["scope"] != "orders:read" {
		t.Errorf("claims %v", claims)
	}
	ref := c.Ref()
	if d := time.Until(ref.Expires); d < 4*time.Minute || d > 5*time.Minute || ref.Audience != "https://api.orders.test" || len(ref.Scopes) != 1 {
		t.Errorf("ref %+v", ref)
	}
	if again := mustGet(t, b, found, s); !again.Ref().Cached || idp.Count(devissuer.PathToken) != 1 {
		t.Errorf("cached %v, %d requests", again.Ref().Cached, idp.Count(devissuer.PathToken))
	}
}

func TestRealRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*TokenExchange, *Subject)
		fault  devissuer.Faults
		want   Reason
	}{
		"a scope not allowed":  {change: func(_ *TokenExchange, s *Subject) { s.RequiredScopes = []string{"admin:all"} }, want: InvalidScope},
		"a target not allowed": {change: func(x *TokenExchange, _ *Subject) { x.Audience = "https://evil.test" }, want: InvalidTarget},
		"another client":       {change: func(x *TokenExchange, _ *Subject) { x.ClientAuth.ClientID = "other" }, want: InvalidClient},
		"a foreign token":      {change: func(_ *TokenExchange, s *Subject) { s.Token = redact.New(fakeJWT(`{}`)) }, want: InvalidRequest},
		"may act, no actor":    {change: func(x *TokenExchange, _ *Subject) { x.Impersonate, x.ActorTokenFile = true, "" }, want: ActorNotAllowed},
		"wider":                {fault: devissuer.Faults{GrantScope: "orders:read admin:all"}, want: WiderScope},
		"another audience":     {fault: devissuer.Faults{WrongAudience: "https://evil.test"}, want: WrongAudience},
		"N_A":                  {fault: devissuer.Faults{TokenType: "N_A"}, want: BadTokenType},
		"no token type":        {fault: devissuer.Faults{TokenType: devissuer.Omit}, want: BadTokenType},
		"no issued type":       {fault: devissuer.Faults{IssuedTokenType: devissuer.Omit}, want: BadTokenType},
		"over at once":         {fault: devissuer.Faults{ExpiresIn: json.RawMessage("0")}, want: Expired},
		"junk":                 {fault: devissuer.Faults{TokenBody: "<html>"}, want: BadAnswer},
		"huge":                 {fault: devissuer.Faults{HugeBody: 8 << 20}, want: BadAnswer},
		"elsewhere":            {fault: devissuer.Faults{Redirect: "http://127.0.0.1:1/"}, want: BadAnswer},
		"cut":                  {fault: devissuer.Faults{Reset: true}, want: Unreachable},
		"down":                 {fault: devissuer.Faults{TokenStatus: 503, RetryAfter: "30"}, want: ServerError},
		"busy":                 {fault: devissuer.Faults{TokenStatus: 429, RetryAfter: "9"}, want: RateLimited},
		"hanging":              {fault: devissuer.Faults{Hang: true}, want: Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			idp, bd, s := realIssuer(t)
			bd.TokenExchange.Timeout = 500 * time.Millisecond
			if c.change != nil {
				c.change(bd.TokenExchange, &s)
			}
			idp.SetFaults(c.fault)
			b, found := mustNew(t, bd, Options{})
			_, err := b.Credential(t.Context(), found, s)
			wantError(t, wantReason(t, err, c.want), []string{s.Token.Reveal()})
			if c.want == ServerError || c.want == RateLimited {
				return // a wait was asked for
			}
			idp.SetFaults(devissuer.Faults{})
			if _, err := b.Credential(t.Context(), found, s); err == nil {
				t.Error("the failure was not kept for a while")
			}
		})
	}
}

// 500 callers of one key at once are one request.
func TestStampede(t *testing.T) {
	idp, bd, s := realIssuer(t)
	b, found := mustNew(t, bd, Options{})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if _, err := b.Credential(t.Context(), found, s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := idp.Count(devissuer.PathToken); n != 1 {
		t.Errorf("%d requests", n)
	}
}
