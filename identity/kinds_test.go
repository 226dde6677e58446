package identity

import "testing"

// TestBoundTokensAreRefused: for a token that only the holder of a key may use, nobody here can say who holds it.
func TestBoundTokensAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, cnf := range []any{
		map[string]any{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, map[string]any{"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"},
		map[string]any{"jwk": map[string]any{"kty": "EC"}}, map[string]any{}, "x", []string{},
	} {
		token := w.mint(t, map[string]any{"cnf": cnf})
		wantReason(t, w.verify(token), "bound", token)
	}
	token := w.mint(t, map[string]any{"CNF": map[string]any{"jkt": "x"}})
	wantReason(t, w.verify(token), "claim", token)
	if w.fetches() != 0 {
		t.Error("a bound token made us fetch keys")
	}
}

// TestTransactionTokens: the draft's required claims must be there, though nothing maps them.
func TestTransactionTokens(t *testing.T) {
	w := newWorld(t, func(i *Issuer) {
		i.Types = []string{"txntoken+jwt"}
		i.Claims = ClaimMap{Tenant: []string{"tctx.tenant"}, Agent: []string{"req_wl"}, Run: []string{"txn"}}
	})
	mint := func(typ string, over map[string]any) string {
		c := map[string]any{
			"iat": w.Now().Unix(), "txn": "97053963-771d-49cc-a4e3-20aad399c312", "req_wl": "apigateway.trust.example",
			"tctx": map[string]any{"tenant": "acme", "action": "BUY"}, "rctx": map[string]any{"req_ip": "192.0.2.7"},
			"tenant": nil, "agent_id": nil, "run_id": nil,
		}
		for k, v := range over {
			c[k] = v
		}
		return w.mintWith(t, map[string]any{"typ": typ}, c, "ES256")
	}
	who, err := w.v.Verify(ctx, mint("txntoken+jwt", nil))
	if err != nil {
		t.Fatal(err)
	}
	if who.Tenant != "acme" || who.Agent != "apigateway.trust.example" || who.Run != "97053963-771d-49cc-a4e3-20aad399c312" {
		t.Errorf("%+v", who)
	}
	for _, name := range []string{"txn", "scope", "req_wl"} {
		token := mint("txntoken+jwt", map[string]any{name: nil})
		wantReason(t, w.verify(token), "claim", token)
	}
	token := mint("at+jwt", nil)
	wantReason(t, w.verify(token), "type", token)
	ordinary := newWorld(t, nil)
	token = ordinary.mintWith(t, map[string]any{"typ": "txntoken+jwt"}, nil, "ES256")
	wantReason(t, ordinary.verify(token), "type", token)
}
