package broker

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// grantJWT is a grant as an identity provider makes it; changes replace or, where empty, remove claims.
func grantJWT(typ string, changes map[string]string) string {
	claims := map[string]string{
		"iss": `"https://idp.test"`, "sub": `"user:alice"`, "aud": `"https://as.test"`, "client_id": `"toolgate-at-as"`, "jti": `"g-1"`,
		"resource": `"https://api.orders.test"`, "scope": `"orders:read"`, "exp": fmt.Sprint(time.Now().Add(time.Minute).Unix()),
	}
	for k, v := range changes {
		claims[k] = v
	}
	var list []string
	for k, v := range claims {
		if v != "" {
			list = append(list, fmt.Sprintf("%q:%s", k, v))
		}
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"ES256","typ":"`+typ+`"}`)) + "." + enc([]byte("{"+strings.Join(list, ",")+"}")) + "." + enc([]byte("grant-SECRET"))
}

func grantBody(token, issued, tokenType, more string) string {
	return fmt.Sprintf(`{"access_token":%q,"issued_token_type":%q,"token_type":%q%s}`, token, issued, tokenType, more)
}

// idJAGServers are an identity provider and an authorization server.
func idJAGServers(t *testing.T, idp, as func(w http.ResponseWriter, r *http.Request, n int)) (Binding, *tokenServer, *tokenServer) {
	t.Helper()
	if idp == nil {
		idp = func(w http.ResponseWriter, _ *http.Request, n int) {
			write(w, 200, grantBody(grantJWT(idJAGJWTType, map[string]string{"jti": fmt.Sprintf(`"g-%d"`, n)}), typeIDJAG, "N_A", `,"expires_in":60`))
		}
	}
	if as == nil {
		as = func(w http.ResponseWriter, _ *http.Request, _ int) {
			write(w, 200, `{"access_token":"`+issuedSecret+`","token_type":"bearer","expires_in":3600,"scope":"orders:read"}`)
		}
	}
	first, second := newTokenServer(t, idp), newTokenServer(t, as)
	return Binding{
		Name: "orders", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		IDJAG: &IDJAG{
			IdentityProvider: IdentityProvider{
				TokenURL: first.URL, ClientAuth: ClientAuth{Method: "client_secret_post", ClientID: "toolgate", SecretFile: writeFile(t, "idp-client-SECRET")},
				Parameters: []Parameter{{"connection", "orders"}},
			},
			TokenURL: second.URL, Issuer: "https://as.test", Resource: "https://api.orders.test",
			ClientAuth: ClientAuth{Method: "client_secret_post", ClientID: "toolgate-at-as", SecretFile: writeFile(t, "as-client-SECRET")},
		},
	}, first, second
}

func TestIDJAGLegs(t *testing.T) {
	bd, idp, as := idJAGServers(t, nil, nil)
	b, found := mustNew(t, bd, Options{})
	c := mustGet(t, b, found, alice())
	if h := sent(c); h.Get("Authorization") != "Bearer "+issuedSecret || len(h) != 1 || c.Ref().Kind != "id_jag" {
		t.Errorf("headers %v, ref %+v", h, c.Ref())
	}
	first, second := idp.seen()[0], as.seen()[0]
	for k, want := range map[string]string{
		"grant_type": grantType, "requested_token_type": typeIDJAG, "audience": "https://as.test", "resource": "https://api.orders.test",
		"scope": "orders:read", "subject_token": subjectSecret, "subject_token_type": typeIDToken, "client_id": "toolgate",
		"client_secret": "idp-client-SECRET", "connection": "orders", "actor_token": "", "assertion": "",
	} {
		if got := first.form.Get(k); got != want {
			t.Errorf("first leg: %s is %q, want %q", k, got, want)
		}
	}
	for k, want := range map[string]string{
		"grant_type": jwtBearer, "resource": "https://api.orders.test", "scope": "orders:read", "client_id": "toolgate-at-as",
		"client_secret": "as-client-SECRET", "subject_token": "", "audience": "", "connection": "",
	} {
		if got := second.form.Get(k); got != want {
			t.Errorf("second leg: %s is %q, want %q", k, got, want)
		}
	}
	if typ, claims, err := parseTyped(second.form.Get("assertion")); err != nil || typ != idJAGJWTType || claims == nil {
		t.Errorf("assertion %v %v", typ, err)
	}
	if mustGet(t, b, found, alice()).Ref().Cached == false || len(idp.seen()) != 1 || len(as.seen()) != 1 {
		t.Error("the token is not kept")
	}
}

// TestIDJAGGrantIsChecked: none of these may reach an authorization server, and none may be sent as a token.
func TestIDJAGGrantIsChecked(t *testing.T) {
	good := func(changes map[string]string) string {
		return grantBody(grantJWT(idJAGJWTType, changes), typeIDJAG, "N_A", "")
	}
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"an access token":        {goodBody(), BadTokenType},
		"issued as access token": {grantBody(grantJWT(idJAGJWTType, nil), typeAccessToken, "N_A", ""), BadTokenType},
		"usable as bearer":       {grantBody(grantJWT(idJAGJWTType, nil), typeIDJAG, "Bearer", ""), BadTokenType},
		"another typ":            {grantBody(grantJWT("JWT", nil), typeIDJAG, "N_A", ""), BadTokenType},
		"opaque":                 {grantBody("opaque-grant", typeIDJAG, "N_A", ""), BadAnswer},
		"another server":         {good(map[string]string{"aud": `"https://evil.test"`}), WrongAudience},
		"two servers":            {good(map[string]string{"aud": `["https://as.test","https://evil.test"]`}), WrongAudience},
		"no audience":            {good(map[string]string{"aud": ""}), WrongAudience},
		"another client":         {good(map[string]string{"client_id": `"evil"`}), WrongClient},
		"our client at the idp":  {good(map[string]string{"client_id": `"toolgate"`}), WrongClient},
		"no client":              {good(map[string]string{"client_id": ""}), WrongClient},
		"another subject":        {good(map[string]string{"sub": `"user:bob"`}), WrongSubject},
		"no subject":             {good(map[string]string{"sub": ""}), WrongSubject},
		"another resource":       {good(map[string]string{"resource": `"https://evil.test"`}), WrongAudience},
		"no id":                  {good(map[string]string{"jti": ""}), BadAnswer},
		"over":                   {good(map[string]string{"exp": "1"}), Expired},
		"no end":                 {good(map[string]string{"exp": ""}), BadAnswer},
		"wider":                  {good(map[string]string{"scope": `"orders:read admin:all"`}), WiderScope},
		"bound to a key":         {good(map[string]string{"cnf": `{"jkt":"x"}`}), WrongKey},
		"twice the subject":      {good(map[string]string{"sub": `"user:alice","sub":"user:alice"`}), BadAnswer},
		"wider in the answer":    {grantBody(grantJWT(idJAGJWTType, nil), typeIDJAG, "N_A", `,"scope":"orders:read admin:all"`), WiderScope},
	} {
		t.Run(name, func(t *testing.T) {
			bd, _, as := idJAGServers(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, c.body) }, nil)
			b, found := mustNew(t, bd, Options{})
			_, err := b.Credential(t.Context(), found, alice())
			wantReason(t, err, c.want)
			if n := len(as.seen()); n != 0 {
				t.Errorf("%d requests to the authorization server", n)
			}
		})
	}
	t.Run("a narrower one where all is optional", func(t *testing.T) {
		bd, _, _ := idJAGServers(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			write(w, 200, good(map[string]string{"resource": "", "scope": "", "aud": `["https://as.test"]`}))
		}, nil)
		b, found := mustNew(t, bd, Options{})
		mustGet(t, b, found, alice())
	})
}

func TestIDJAGTokenIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   Reason
	}{
		"N_A":             {200, `{"access_token":"x","token_type":"N_A"}`, BadTokenType},
		"wider":           {200, `{"access_token":"x","token_type":"bearer","scope":"orders:read admin:all"}`, WiderScope},
		"narrower":        {200, `{"access_token":"x","token_type":"bearer","scope":""}`, NarrowerScope},
		"for another":     {200, `{"access_token":"` + fakeJWT(`{"sub":"local-7","aud":"https://evil.test"}`) + `","token_type":"bearer"}`, WrongAudience},
		"the grant back":  {200, `{"access_token":"` + grantJWT(idJAGJWTType, nil) + `","token_type":"bearer"}`, WrongAudience},
		"replayed":        {400, `{"error":"invalid_grant"}`, InvalidGrant},
		"unknown client":  {401, `{"error":"invalid_client"}`, InvalidClient},
		"a local subject": {200, `{"access_token":"` + fakeJWT(`{"sub":"local-7","aud":"https://api.orders.test"}`) + `","token_type":"bearer"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bd, _, as := idJAGServers(t, nil, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, c.status, c.body) })
			b, found := mustNew(t, bd, Options{})
			_, err := b.Credential(t.Context(), found, alice())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.want)
			if n := len(as.seen()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestIDJAGGrantIsUsedOnce: a server that has seen it may have redeemed it.
func TestIDJAGGrantIsUsedOnce(t *testing.T) {
	bd, idp, as := idJAGServers(t, nil, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		write(w, 200, `{"access_token":"x","token_type":"bearer","expires_in":60}`)
	})
	b, found := mustNew(t, bd, Options{})
	mustGet(t, b, found, alice())
	seen := as.seen()
	if len(idp.seen()) != 2 || len(seen) != 2 || seen[0].form.Get("assertion") == seen[1].form.Get("assertion") {
		t.Errorf("%d grants for %d attempts", len(idp.seen()), len(seen))
	}
}

func TestIDJAGMayAct(t *testing.T) {
	s := alice()
	s.Token = redact.New(fakeJWT(`{"sub":"user:alice","may_act":{"sub":"workload"}}`))
	bd, idp, _ := idJAGServers(t, nil, nil)
	b, found := mustNew(t, bd, Options{})
	_, err := b.Credential(t.Context(), found, s)
	wantReason(t, err, ActorNotAllowed)
	if len(idp.seen()) != 0 {
		t.Error("the identity provider was asked all the same")
	}
	bd, idp, _ = idJAGServers(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		write(w, 200, grantBody(grantJWT(idJAGJWTType, map[string]string{"act": `{"sub":"workload"}`}), typeIDJAG, "N_A", ""))
	}, nil)
	bd.IDJAG.IdentityProvider.ActorTokenFile = writeFile(t, fakeJWT(`{"sub":"workload"}`))
	b, found = mustNew(t, bd, Options{})
	mustGet(t, b, found, s)
	if f := idp.seen()[0].form; f.Get("actor_token") == "" || f.Get("actor_token_type") != typeJWT {
		t.Errorf("form %v", f)
	}
}

func TestIDJAGSettings(t *testing.T) {
	for name, change := range map[string]func(*IDJAG){
		"no issuer":           func(c *IDJAG) { c.Issuer = "" },
		"no client":           func(c *IDJAG) { c.ClientAuth = ClientAuth{Method: "none"} },
		"http":                func(c *IDJAG) { c.TokenURL = "http://as.test/token" },
		"http at the idp":     func(c *IDJAG) { c.IdentityProvider.TokenURL = "http://idp.test/token" },
		"a second assertion":  func(c *IDJAG) { c.IdentityProvider.Parameters = []Parameter{{"assertion", "x"}} },
		"resource":            func(c *IDJAG) { c.Resource = "#x" },
		"no secret":           func(c *IDJAG) { c.ClientAuth.SecretFile = "/nowhere" },
		"no secret at the id": func(c *IDJAG) { c.IdentityProvider.ClientAuth.SecretFile = "/nowhere" },
		"scopes":              func(c *IDJAG) { c.Scopes = []string{"a b"} },
	} {
		bd, _, _ := idJAGServers(t, nil, nil)
		change(bd.IDJAG)
		if _, err := New([]Binding{bd}, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestIDJAGIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		var mu sync.Mutex
		mode := ""
		set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
		bd, _, _ := idJAGServers(t, nil, func(w http.ResponseWriter, r *http.Request, _ int) {
			mu.Lock()
			m := mode
			mu.Unlock()
			switch m {
			case "spoil":
				write(w, 400, `{"error":"invalid_grant","error_description":"`+r.PostFormValue("assertion")+`"}`)
			case "hang":
				<-r.Context().Done()
			default:
				write(w, 200, `{"access_token":"`+issuedSecret+`","token_type":"bearer","expires_in":3600}`)
			}
		})
		return issuerUnderTest{
			issuer: mustExchanger(t, bd), subject: alice(),
			secrets: []string{issuedSecret, subjectSecret, "idp-client-SECRET", "as-client-SECRET", b64([]byte("grant-SECRET"))},
			spoil:   set("spoil"), hang: set("hang"),
		}
	})
}
