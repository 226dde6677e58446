package identity

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
)

// TestKeysOpen: what Open lets through is what the issuer signed for us as this type; each refusal is of a token that differs from
// the good one in one thing only.
func TestKeysOpen(t *testing.T) {
	c := newClock()
	idp := startIssuer(t, c, "ES256", "RS256")
	other := startIssuer(t, c, "ES256")
	keys, err := newKeys(Issuer{URL: idp.URL(), Audiences: []string{"us"}, Types: []string{"secevent+jwt"}}, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(i *devissuer.Issuer, header, over map[string]any, alg string) string {
		h := map[string]any{"typ": "secevent+jwt"}
		for k, v := range header {
			h[k] = v
		}
		claims := map[string]any{"iss": idp.URL(), "aud": "us", "exp": nil, "jti": "1"}
		for k, v := range over {
			claims[k] = v
		}
		token, err := i.MintWith(h, claims, alg)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	payload, err := keys.Open(t.Context(), sign(idp, nil, nil, "ES256"))
	var claims map[string]any
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims["jti"] != "1" {
		t.Fatalf("payload %s, %v", payload, err)
	}
	doubled, err := idp.Sign([]byte(`{"alg":"ES256","typ":"secevent+jwt"}`), []byte(`{"iss":"`+idp.URL()+`","aud":"us","x":{"a":1,"a":2}}`), "ES256")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ token, reason string }{
		"another issuer":    {sign(idp, nil, map[string]any{"iss": other.URL()}, "ES256"), "issuer"},
		"another's key":     {sign(other, nil, nil, "ES256"), "key"},
		"forged":            {sign(other, map[string]any{"kid": idp.Keys().Keys[0].KeyID}, nil, "ES256"), ""},
		"audience":          {sign(idp, nil, map[string]any{"aud": "them"}, "ES256"), "audience"},
		"no audience":       {sign(idp, nil, map[string]any{"aud": nil}, "ES256"), "audience"},
		"an ID token":       {sign(idp, map[string]any{"typ": "JWT"}, nil, "ES256"), "type"},
		"no type":           {sign(idp, map[string]any{"typ": nil}, nil, "ES256"), "type"},
		"none":              {sign(idp, nil, nil, "none"), "algorithm"},
		"public key as MAC": {sign(idp, nil, nil, "HS256"), "algorithm"},
		"another algorithm": {sign(idp, nil, nil, "PS256"), "algorithm"},
		"doubled name":      {doubled, "claim"},
		"too large":         {sign(idp, nil, map[string]any{"x": make([]byte, maxToken)}, "ES256"), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keys.Open(t.Context(), tc.token)
			if invalid, ok := errors.AsType[*InvalidError](err); !ok || tc.reason != "" && invalid.Reason != tc.reason {
				t.Errorf("error %v, want %q", err, tc.reason)
			}
		})
	}
	if s := keys.Status(); s.Keys != 2 || s.Err != nil {
		t.Errorf("status %+v", s)
	}
}
