package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const boundBindings = `    - name: orders
      tools: [orders_reader]
      targets: ["orders.test:%PORT"]
      tokenExchange:
        tokenURL: %AS/token
        revocationURL: %AS/token/revocation
        audience: userinfo
        scopes: ["openid"]
        dpop: true
        clientAuth: %AUTH
    - name: wide
      tools: [orders_reader]
      targets: ["wide.test:%PORT"]
      tokenExchange:
        tokenURL: %AS/token
        audience: https://orders.test
        scopes: ["orders:read"]
        dpop: true
        clientAuth: %AUTH
`

// TestInteropPanva: oidc-provider as the issuer of bound tokens, and as the upstream that judges their proofs.
func TestInteropPanva(t *testing.T) {
	w := newWorld(t, "", independent("client_secret_basic", func(c *authConfig) { c.Nonce = true }))
	u := newRelay(t, w, w.as.issuer, true)
	s := w.startWith(t, u, strings.NewReplacer("%AS", w.as.issuer, "%AUTH", w.as.clientAuth).Replace(boundBindings))
	tool := toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), s.caFile)
	var found []finding
	note := func(feature, answered, sidecar string) { found = append(found, finding{feature, answered, sidecar}) }

	form := w.exchangeForm(t)
	status, v := asked(t, w.as.tokenURL, form, clientID, clientSecret, nil)
	plain := claimsOf(t, v["access_token"].(string))
	note("token exchange", told(status, v)+fmt.Sprintf("; JWT with `aud` `%v`, `act.sub` `%v`", plain["aud"], plain["act"].(map[string]any)["sub"]), "accepts")
	form.Set("scope", ordersScope+" orders:admin")
	status, v = asked(t, w.as.tokenURL, form, clientID, clientSecret, nil)
	note("a scope that the client may not have", told(status, v), "refuses: `invalid_scope`")

	// Its own userinfo endpoint is the upstream: it demands a proof with a nonce of its own for each request, and never the same twice.
	a := get(t, tool, u.url(ordersHost, "/me"))
	if a.status != http.StatusOK || !strings.Contains(a.body, `"sub":"user:alice"`) {
		t.Fatalf("/me: %d %s", a.status, a.body)
	}
	first := u.last(t)
	u.mu.Lock()
	times := len(u.seen)
	u.mu.Unlock()
	note("DPoP, opaque token, proof judged by its `/me`", fmt.Sprintf("200 at request %d of its upstream", times), "accepts; the nonce of the upstream is given at once")
	if a := get(t, tool, u.url(ordersHost, "/me")); a.status != http.StatusOK || len(u.seen) != times+1 {
		t.Errorf("the next request: %d, %d requests", a.status, len(u.seen)-times)
	}
	replayed := first.Header.Clone()
	status, v = sendAs(t, w, u, "GET", "/me", replayed)
	note("the same proof a second time", told(status, v), "makes a new proof for each request")
	status, v = sendAs(t, w, u, "POST", "/me", u.last(t).Header.Clone())
	note("a proof for another method", told(status, v), "")
	found[len(found)-1].sidecar = "names the request's own method and URL"
	bare := u.last(t).Header.Clone()
	bare.Del("Dpop")
	bare.Set("Authorization", strings.Replace(bare.Get("Authorization"), "DPoP", "Bearer", 1))
	status, v = sendAs(t, w, u, "GET", "/me", bare)
	note("the token without its proof", told(status, v), "never sends one without the other")

	if a := get(t, tool, u.url(wideHost, "/v1")); a.status != http.StatusOK {
		t.Fatalf("JWT: %d %s", a.status, a.body)
	}
	arrived := u.last(t)
	bound := claimsOf(t, strings.TrimPrefix(arrived.Header.Get("Authorization"), "DPoP "))
	jkt, _ := bound["cnf"].(map[string]any)["jkt"].(string)
	if want := thumbprint(t, arrived.Header.Get("DPoP")); jkt != want {
		t.Errorf("cnf.jkt %q, the proof's key is %q", jkt, want)
	}
	note("DPoP at the token endpoint, JWT", "first `use_dpop_nonce`, then `token_type` `DPoP` and `cnf.jkt` of the proof's key", "accepts; tries again once with the nonce")

	opaque := strings.TrimPrefix(first.Header.Get("Authorization"), "DPoP ")
	active := func() any {
		_, v := asked(t, w.as.issuer+"/token/introspection", url.Values{"token": {opaque}}, clientID, clientSecret, nil)
		return v["active"]
	}
	before := active()
	w.setRevocations(t, "apiVersion: toolgate/v1\nkind: Revocations\nrevocations:\n- {id: stop, selector: {task: task-1}, reason: e2e, by: e2e, at: 2026-01-01T00:00:00Z}\n")
	eventually(t, "the token is revoked at its issuer", func() bool { return active() == false })
	note("introspection before and after a revocation of the task (RFC 7662, 7009)", fmt.Sprintf("`active` `%v`, then `false`", before), "revokes at `revocationURL` in the background")
	status, v = asked(t, w.as.issuer+"/token/revocation", url.Values{"token": {strings.TrimPrefix(arrived.Header.Get("Authorization"), "DPoP ")}}, clientID, clientSecret, nil)
	note("revocation of a JWT", told(status, v), "drops its own copy and the key; the JWT ends by itself")
	checkFindings(t, "oidc-provider", found)
}

// sendAs repeats a request to the upstream's peer, past the sidecar.
func sendAs(t *testing.T, w *world, u *relay, method, path string, h http.Header) (int, map[string]any) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecureTo(t, w)}}
	defer client.CloseIdleConnections()
	return sendWith(t, client, method, "https://127.0.0.1:"+u.port+path, ordersHost+":"+u.port, h)
}
