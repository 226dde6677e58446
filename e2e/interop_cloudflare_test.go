package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const grantBindings = `    - name: orders
      tools: [orders_reader]
      targets: ["orders.test:%PORT"]
      idJAG:
        identityProvider:
          tokenURL: %IDP/token
          clientAuth: %AUTH
          subjectTokenType: urn:ietf:params:oauth:token-type:jwt
          actorTokenFile: %DIR/workload.jwt
        issuer: %AS
        tokenURL: %AS/token
        resource: %AS/api
        scopes: ["orders:read"]
        clientAuth: {method: client_secret_basic, clientID: %CLIENT, secretFile: %DIR/as-secret}
    - name: unknown
      tools: [orders_reader]
      targets: ["unknown.test:%PORT"]
      idJAG:
        identityProvider: {tokenURL: %IDP/token, clientAuth: %AUTH, subjectTokenType: "urn:ietf:params:oauth:token-type:jwt", actorTokenFile: %DIR/workload.jwt}
        issuer: https://elsewhere.test
        tokenURL: %AS/token
        clientAuth: {method: client_secret_basic, clientID: %CLIENT, secretFile: %DIR/as-secret}
    - name: wide
      tools: [orders_reader]
      targets: ["wide.test:%PORT"]
      idJAG:
        identityProvider: {tokenURL: %IDP/token, clientAuth: %AUTH, subjectTokenType: "urn:ietf:params:oauth:token-type:jwt", actorTokenFile: %DIR/workload.jwt}
        issuer: %AS
        tokenURL: %AS/token
        resource: https://elsewhere.test/api
        clientAuth: {method: client_secret_basic, clientID: %CLIENT, secretFile: %DIR/as-secret}
`

// TestInteropCloudflare: both legs of an identity assertion grant, the second against a server that redeems it, and its token at a
// resource of that server.
func TestInteropCloudflare(t *testing.T) {
	const idp = "https://idp.test"
	cf := startCloudflare(t, idp)
	w := newWorld(t, "", independent("client_secret_basic", func(c *authConfig) {
		c.Grants = &grants{Issuer: idp, Clients: map[string]string{cf.URL: cf.ID}}
	}))
	cf.tell(t, fetchKeys(t, w.as.issuer+"/jwks"))
	write(t, w.dir, "as-secret", cf.Secret)
	u := newRelay(t, w, cf.URL, false)
	s := w.startWith(t, u, strings.NewReplacer("%IDP", w.as.issuer, "%AUTH", w.as.clientAuth, "%AS", cf.URL, "%CLIENT", cf.ID, "%DIR", w.dir).Replace(grantBindings))
	tool := toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), s.caFile)
	var found []finding
	note := func(feature, answered, sidecar string) { found = append(found, finding{feature, answered, sidecar}) }

	a := get(t, tool, u.url(ordersHost, "/api"))
	if a.status != http.StatusOK || !strings.Contains(a.body, `"sub":"user:alice"`) {
		t.Fatalf("/api: %d %s", a.status, a.body)
	}
	token := strings.TrimPrefix(u.last(t).Header.Get("Authorization"), "Bearer ")
	if strings.Count(token, ".") == 2 {
		t.Error("the grant itself was sent to the upstream")
	}
	grant := func(change func(url.Values)) string {
		form := w.exchangeForm(t)
		form.Set("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag")
		form.Set("audience", cf.URL)
		form.Set("resource", cf.URL+"/api")
		if change != nil {
			change(form)
		}
		_, v := asked(t, w.as.tokenURL, form, clientID, clientSecret, nil)
		jag, _ := v["access_token"].(string)
		return jag
	}
	redeem := func(jag string) (int, map[string]any) {
		return asked(t, cf.URL+"/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {jag}, "scope": {ordersScope}}, cf.ID, cf.Secret, nil)
	}
	jag := grant(nil)
	status, v := redeem(jag)
	note("ID-JAG redeemed, its token used at its API", told(status, v)+"; opaque; the API 200", "accepts")
	status, v = redeem(jag)
	note("the grant a second time", told(status, v), "uses each grant once")
	status, v = asked(t, cf.URL+"/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {w.task(t, "user:alice")}}, cf.ID, cf.Secret, nil)
	note("a JWT of another `typ`", told(status, v), "checks the grant's `typ` before it is redeemed")
	note("a grant for a resource that it does not serve", told(redeem(grant(func(f url.Values) { f.Set("resource", "https://elsewhere.test/api") }))), refusal(t, get(t, tool, u.url(wideHost, "/api"))))
	note("a grant that the identity provider does not give", "not asked", refusal(t, get(t, tool, u.url(unknownHost, "/api"))))

	exchange := func(change func(url.Values)) string {
		form := url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {token},
			"subject_token_type":   {"urn:ietf:params:oauth:token-type:access_token"},
			"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "scope": {ordersScope}, "resource": {cf.URL + "/api"},
		}
		change(form)
		return told(asked(t, cf.URL+"/token", form, cf.ID, cf.Secret, nil))
	}
	const byHand = " (asked by hand: it exchanges its own opaque tokens only)"
	note("token exchange"+byHand, exchange(func(url.Values) {}), "accepts such an answer")
	note("a wider scope"+byHand, exchange(func(f url.Values) { f.Set("scope", ordersScope+" orders:admin") }), "refuses such an answer: `narrower_scope`")
	note("another resource"+byHand, exchange(func(f url.Values) { f.Set("resource", "https://elsewhere.test/api") }), "refuses: `invalid_target`")
	note("an actor token"+byHand, exchange(func(f url.Values) {
		f.Set("actor_token", w.readFile(t, "workload.jwt"))
		f.Set("actor_token_type", jwtTokenType)
	}), "cannot tell that the actor was ignored: the token is opaque. Say `mode: impersonation`")
	note("a JWT as the subject token"+byHand, exchange(func(f url.Values) {
		f.Set("subject_token", w.task(t, "user:alice"))
		f.Set("subject_token_type", jwtTokenType)
	}), "refuses: `invalid_request`")
	if body := fmt.Sprint(s.stdout.String(), s.stderr.String()); strings.Contains(body, token) || strings.Contains(body, cf.Secret) {
		t.Error("a secret was printed")
	}
	checkFindings(t, "workers-oauth-provider", found)
}
