package broker

import (
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact"
)

func TestExchangeForm(t *testing.T) {
	base := url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":        {subjectSecret},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"client_id":            {"toolgate"},
	}
	for name, c := range map[string]struct {
		change func(*TokenExchange)
		want   map[string]string // besides base; "" takes away
	}{
		"audience": {func(*TokenExchange) {}, map[string]string{"audience": "https://api.orders.test", "scope": "orders:read"}},
		"resource": {
			func(c *TokenExchange) { c.Audience, c.Resource = "", "https://res.orders.test/v1" },
			map[string]string{"resource": "https://res.orders.test/v1", "scope": "orders:read"},
		},
		"both, and the binding's own scopes": {
			func(c *TokenExchange) { c.Resource, c.Scopes = "urn:orders", []string{"z", "a", "z"} },
			map[string]string{"audience": "https://api.orders.test", "resource": "urn:orders", "scope": "a z"},
		},
		"an actor": {
			func(c *TokenExchange) { c.Impersonate, c.ActorTokenFile = false, writeFile(t, actorSecret+"\n") },
			map[string]string{
				"audience": "https://api.orders.test", "scope": "orders:read",
				"actor_token": actorSecret, "actor_token_type": "urn:ietf:params:oauth:token-type:jwt",
			},
		},
		"other token types": {
			func(c *TokenExchange) {
				c.Impersonate = false
				c.ActorTokenFile, c.ActorTokenType = writeFile(t, actorSecret), "urn:example:svid"
				c.SubjectTokenType = "urn:ietf:params:oauth:token-type:id_token"
			},
			map[string]string{
				"audience": "https://api.orders.test", "scope": "orders:read", "actor_token": actorSecret,
				"actor_token_type": "urn:example:svid", "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
			},
		},
		"an actor's type without an actor": {
			func(c *TokenExchange) { c.ActorTokenType = "urn:example:svid" },
			map[string]string{"audience": "https://api.orders.test", "scope": "orders:read"},
		},
		"target audience": {
			func(c *TokenExchange) { c.Target, c.Resource = TargetAudience, "urn:orders" },
			map[string]string{"audience": "https://api.orders.test", "scope": "orders:read"},
		},
		"target resource": {
			func(c *TokenExchange) { c.Target, c.Resource = TargetResource, "urn:orders" },
			map[string]string{"resource": "urn:orders", "scope": "orders:read"},
		},
		"target both": {
			func(c *TokenExchange) { c.Target, c.Resource = TargetBoth, "urn:orders" },
			map[string]string{"audience": "https://api.orders.test", "resource": "urn:orders", "scope": "orders:read"},
		},
		"target scope": {
			func(c *TokenExchange) { c.Target, c.Scopes = TargetScope, []string{"api://orders/.default"} },
			map[string]string{"scope": "api://orders/.default"},
		},
		"another grant, with a parameter": {
			func(c *TokenExchange) {
				c.GrantType, c.Parameters = "urn:example:grant", []Parameter{{"connection", "crm & co"}}
			},
			map[string]string{
				"grant_type": "urn:example:grant", "connection": "crm & co",
				"audience": "https://api.orders.test", "scope": "orders:read",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, nil)
			bd := exchangeBinding(s.URL)
			c.change(bd.TokenExchange)
			cred, err := mustExchanger(t, bd).Issue(t.Context(), alice())
			if err != nil {
				t.Fatal(err)
			}
			want := url.Values{}
			for k, v := range base {
				want[k] = v
			}
			for k, v := range c.want {
				want[k] = []string{v}
			}
			got := s.seen()[0]
			if !reflect.DeepEqual(got.form, want) {
				t.Errorf("form\n%v, want\n%v", got.form, want)
			}
			if ct := got.header.Get("Content-Type"); ct != "application/x-www-form-urlencoded" {
				t.Errorf("content type %q", ct)
			}
			if h := sent(cred).Get("Authorization"); h != "Bearer "+issuedSecret {
				t.Errorf("sent %q", h)
			}
		})
	}
}

func TestNoScopesAsked(t *testing.T) {
	s := newTokenServer(t, nil)
	sub := alice()
	sub.RequiredScopes = nil
	if _, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	if f := s.seen()[0].form; f.Has("scope") {
		t.Errorf("scope %q", f["scope"])
	}
}

// Each of these is refused before the endpoint hears of it.
func TestNothingIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Subject, *Binding)
		want   Reason
	}{
		"no token":       {func(s *Subject, _ *Binding) { s.Token = redact.Secret{} }, NoSubjectToken},
		"an empty token": {func(s *Subject, _ *Binding) { s.Token = redact.New("") }, NoSubjectToken},
		"no subject":     {func(s *Subject, _ *Binding) { s.Subject = "" }, NoIdentity},
		"no tool":        {func(s *Subject, _ *Binding) { s.Tool = "" }, NoIdentity},
		"another tool":   {func(s *Subject, _ *Binding) { s.Tool = "other_tool" }, NotBound},
		"token over":     {func(s *Subject, _ *Binding) { s.Expiry = s.Expiry.AddDate(0, 0, -1) }, SubjectExpired},
		"a scope of two": {func(s *Subject, _ *Binding) { s.RequiredScopes = []string{"orders:read admin:all"} }, InvalidScope},
		"another may act": {func(s *Subject, b *Binding) {
			s.Token = redact.New(fakeJWT(`{"sub":"user:alice","may_act":{"sub":"workload"}}`))
			b.TokenExchange.Impersonate = false
			b.TokenExchange.ActorTokenFile = writeFile(t, fakeJWT(`{"sub":"other"}`))
		}, ActorNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, nil)
			bd, sub := exchangeBinding(s.URL), alice()
			c.change(&sub, &bd)
			b, found := mustNew(t, bd, Options{})
			_, err := b.Credential(t.Context(), found, sub)
			wantReason(t, err, c.want)
			if n := len(s.seen()); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestForeignBinding(t *testing.T) {
	b, _ := mustNew(t, exchangeBinding("http://127.0.0.1:1/token"), Options{})
	foreign := exchangeBinding("http://127.0.0.1:1/token")
	for _, bd := range []*Binding{nil, &foreign} {
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, NotBound)
	}
}

func TestActorTokenRotates(t *testing.T) {
	s := newTokenServer(t, nil)
	bd := exchangeBinding(s.URL)
	path := writeFile(t, "first")
	bd.TokenExchange.Impersonate = false
	bd.TokenExchange.ActorTokenFile = path
	b, found := mustNew(t, bd, Options{})
	aSecondLater := func() { b.bound[found].issuer.(*exchanger).actor.seen.Store(0) } // it is looked at once a second
	mustGet(t, b, found, alice())
	mustGet(t, b, found, alice())
	replace(t, path, "second")
	aSecondLater()
	mustGet(t, b, found, alice())
	seen := s.seen()
	if len(seen) != 2 || seen[0].form.Get("actor_token") != "first" || seen[1].form.Get("actor_token") != "second" {
		t.Errorf("%d requests: %v", len(seen), seen)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	aSecondLater()
	_, err := b.Credential(t.Context(), found, alice())
	wantReason(t, err, SecretUnreadable)
}

// replace puts a new file in the place of an old one, as an orderly writer does.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// What an endpoint says in an error, in any part of its answer, is not repeated.
func TestErrorsRepeatNothing(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"description": func(w http.ResponseWriter, r *http.Request) {
			write(w, 400, `{"error":"invalid_scope","error_description":"`+r.PostFormValue("subject_token")+`"}`)
		},
		"code": func(w http.ResponseWriter, r *http.Request) {
			write(w, 400, `{"error":"`+r.PostFormValue("subject_token")+`"}`)
		},
		"body":   func(w http.ResponseWriter, r *http.Request) { write(w, 502, r.PostFormValue("subject_token")) },
		"answer": func(w http.ResponseWriter, r *http.Request) { write(w, 200, r.PostFormValue("subject_token")) },
		"location": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/?"+r.PostFormValue("subject_token"))
			w.WriteHeader(302)
		},
		"header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", r.PostFormValue("subject_token"))
			w.WriteHeader(503)
		},
		"token": func(w http.ResponseWriter, _ *http.Request) { write(w, 200, withToken(subjectSecret+`\r\n`)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) { answer(w, r) })
			_, err := mustExchanger(t, exchangeBinding(s.URL+"/path-SECRET?q=query-SECRET")).Issue(t.Context(), alice())
			wantError(t, err, []string{subjectSecret, "path-SECRET", "query-SECRET", "127.0.0.1"})
		})
	}
}

// A token that the issuer calls by a name of its own is taken under that name alone.
func TestRequestedType(t *testing.T) {
	const vault = "http://auth0.test/federated-connection-access-token"
	for issued, want := range map[string]Reason{vault: "", typeAccessToken: BadTokenType, typeJWT: BadTokenType} {
		s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			write(w, 200, strings.Replace(goodBody(), typeAccessToken, issued, 1))
		})
		bd := exchangeBinding(s.URL)
		bd.TokenExchange.RequestedType = vault
		_, err := mustExchanger(t, bd).Issue(t.Context(), alice())
		if got := s.seen()[0].form.Get("requested_token_type"); got != vault {
			t.Errorf("asked for %q", got)
		}
		if want == "" && err != nil {
			t.Errorf("%s: %v", issued, err)
		} else if want != "" {
			wantReason(t, err, want)
		}
	}
}
