package broker

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/redact"
)

// Trial is what one request for a credential brought, without anything secret.
type Trial struct {
	Binding  string    `json:"binding"`
	Kind     string    `json:"kind"`
	Asked    []Asked   `json:"asked,omitempty"` // of endpoints; the last decides
	Audience string    `json:"audience,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"` // that were asked for
	Expires  time.Time `json:"expires,omitzero"`
	Reason   Reason    `json:"reason,omitempty"` // empty: there is a credential
	Cause    string    `json:"cause,omitempty"`  // of Reason, in words
	Remedy   string    `json:"remedy,omitempty"`
}

// Asked is one request to an endpoint.
type Asked struct {
	Endpoint        string `json:"endpoint"`
	Sent            []Pair `json:"sent,omitempty"`
	Status          int    `json:"status,omitempty"` // 0: no answer
	IssuedTokenType string `json:"issued_token_type,omitempty"`
	TokenType       string `json:"token_type,omitempty"`
	ExpiresIn       string `json:"expires_in,omitempty"`
	Scope           string `json:"scope,omitempty"`
	Claims          []Pair `json:"claims,omitempty"` // of a token that is a JWT
}

// Pair is a name with a value, as text or as JSON.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Try asks the issuer of a binding once, past the cache, and keeps nothing of what comes: where a revocation would end it, it is ended at once.
func (b *Broker) Try(ctx context.Context, bd *Binding, s Subject) Trial {
	bo, err := b.admit(bd, &s)
	if err != nil {
		return Trial{}.failed(asError(err))
	}
	ctx, cancel := context.WithTimeout(forTenant(ctx, s.Tenant), orElse(bo.deadline, time.Minute))
	defer cancel()
	t := Trial{Binding: bo.Name, Kind: bo.Kind()}
	seen := &witness{}
	cred, fail := issue(context.WithValue(ctx, witnessKey{}, seen), bo, s)
	t.Asked = seen.asked
	if fail != nil {
		return t.failed(fail)
	}
	bo.revoker.try(cred, s.Tenant)
	ref := cred.Ref()
	t.Audience, t.Scopes, t.Expires = ref.Audience, ref.Scopes, ref.Expires
	return t
}

func asError(err error) *Error {
	e, ok := err.(*Error)
	if !ok {
		e = newError("", Internal)
	}
	return e
}

func (t Trial) failed(e *Error) Trial {
	t.Binding, t.Reason = orElse(t.Binding, e.Binding), e.Reason
	m := meanings[e.Reason]
	t.Cause, t.Remedy = m.cause, m.remedy
	return t
}

// Err is the error that a call would have got; nil where there is a credential.
func (t Trial) Err() error {
	if t.Reason == "" {
		return nil
	}
	return newError(t.Binding, t.Reason)
}

type witnessKey struct{}

// witness sees what goes to endpoints and comes back, where somebody wants to be told.
type witness struct{ asked []Asked }

// maxShown bounds what is shown of a value.
const maxShown = 300

func (w *witness) note(ep string, form url.Values, h http.Header, r reply) {
	a := Asked{Endpoint: redact.URL(ep), Status: r.status}
	hide := hider(form, h, r)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		a.Sent = append(a.Sent, Pair{name, hide(sentValue(name, form.Get(name)))})
	}
	var ans answer
	if json.Unmarshal(r.body, &ans) == nil {
		a.IssuedTokenType, a.TokenType = hide(jsonText(ans.IssuedTokenType)), hide(jsonText(ans.TokenType))
		a.ExpiresIn, a.Scope = hide(jsonText(ans.ExpiresIn)), hide(jsonText(ans.Scope))
		if token, ok := stringOf(ans.AccessToken); ok {
			a.Claims = shownClaims(token, hide)
		}
	}
	w.asked = append(w.asked, a)
}

// sentValue hides what is secret: tokens, assertions and client secrets. Others come from the config, where secrets stand in files only.
func sentValue(name, v string) string {
	switch {
	case strings.HasSuffix(name, "_type"), !strings.Contains(name, "token") && !strings.Contains(name, "secret") &&
		!strings.Contains(name, "assertion") && !strings.Contains(name, "password") && name != "code":
		return v
	}
	return "[not shown]"
}

// hider returns what makes a text fit to be shown: an issuer may put what it was sent, or what it issued, where it does not belong.
func hider(form url.Values, h http.Header, r reply) func(string) string {
	var secrets []string
	if _, password, ok := (&http.Request{Header: h}).BasicAuth(); ok {
		plain, _ := url.QueryUnescape(password)
		secrets = append(secrets, password, plain)
	}
	for name, values := range form {
		for _, v := range values {
			if len(v) >= 8 && sentValue(name, v) != v {
				secrets = append(secrets, v)
			}
		}
	}
	var ans answer
	if json.Unmarshal(r.body, &ans) == nil {
		if token, ok := stringOf(ans.AccessToken); ok && len(token) >= 8 {
			secrets = append(secrets, token)
		}
	}
	return func(s string) string {
		for _, secret := range secrets {
			if secret != "" {
				s = strings.ReplaceAll(s, secret, echoed)
			}
		}
		if s = redact.Text(s); len(s) > maxShown {
			s = strings.ToValidUTF8(s[:maxShown], "") + "…"
		}
		return s
	}
}

func jsonText(v jsontext.Value) string {
	if s, ok := stringOf(v); ok {
		return s
	}
	return string(v)
}

// plainClaims say who, for whom and until when; none is a secret.
var plainClaims = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "roles", "act", "may_act", "client_id", "azp", "appid", "cnf", "typ",
	"tenant", "tenant_id", "tid", "org_id", "oid", "txn", "token_use",
}

// shownClaims are a JWT's, in alphabetical order, without its signature. What is not known here is shown as a log would show it.
func shownClaims(token string, hide func(string) string) []Pair {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]jsontext.Value
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	var all []Pair
	var mask *redact.Scrubber
	for name, v := range claims {
		text := string(v)
		if !slices.Contains(plainClaims, name) {
			field, err := json.Marshal(map[string]jsontext.Value{name: v})
			if err != nil {
				continue
			}
			text = mask.Body("application/json", field, true).Text
		}
		all = append(all, Pair{hide(name), hide(text)})
	}
	slices.SortFunc(all, func(a, b Pair) int { return strings.Compare(a.Name, b.Name) })
	return all
}
