package devissuer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	maxForm         = 256 << 10
)

// oauthError is an error answer (RFC 6749, section 5.2).
type oauthError struct {
	status            int
	code, description string
}

func (e *oauthError) write(w http.ResponseWriter) {
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="devissuer"`)
	}
	writeJSON(w, e.status, map[string]string{"error": e.code, "error_description": e.description})
}

func refuse(code, description string) *oauthError {
	return &oauthError{status: http.StatusBadRequest, code: code, description: description}
}

// begin reads the form of a POST and authenticates its client.
func (i *Issuer) begin(w http.ResponseWriter, r *http.Request) (Client, *oauthError) {
	if r.Method != http.MethodPost {
		return Client{}, &oauthError{status: http.StatusMethodNotAllowed, code: "invalid_request", description: "POST only"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return Client{}, refuse("invalid_request", "the form cannot be read")
	}
	c, ok := i.authenticate(r)
	if !ok {
		return Client{}, &oauthError{status: http.StatusUnauthorized, code: "invalid_client", description: "client authentication failed"}
	}
	return c, nil
}

func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request, f Faults) {
	c, fail := i.begin(w, r)
	i.mu.Lock()
	i.last = r.PostForm
	i.mu.Unlock()
	if fail == nil {
		var answer map[string]any
		if answer, fail = i.exchange(c, r.PostForm, f); fail == nil {
			writeJSON(w, http.StatusOK, answer)
			return
		}
	}
	fail.write(w)
}

// grant is what an exchange decided to issue.
type grant struct {
	subject, actor map[string]any // actor is nil without an actor token
	audiences      []string
	scope          []string
}

// exchange is RFC 8693, section 2.
func (i *Issuer) exchange(c Client, form url.Values, f Faults) (map[string]any, *oauthError) {
	if form.Get("grant_type") != grantExchange {
		return nil, refuse("unsupported_grant_type", "only token exchange")
	}
	for _, name := range []string{"subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "scope"} {
		if len(form[name]) > 1 {
			return nil, refuse("invalid_request", name+" is given twice")
		}
	}
	if t := form.Get("requested_token_type"); t != "" && t != typeAccessToken && t != typeJWT {
		return nil, refuse("invalid_request", "requested_token_type is not supported")
	}
	var g grant
	var fail *oauthError
	if g.subject, fail = i.inputToken(form, "subject_token"); fail != nil {
		return nil, fail
	}
	if form.Has("actor_token") || form.Has("actor_token_type") {
		if g.actor, fail = i.inputToken(form, "actor_token"); fail != nil {
			return nil, fail
		}
	}
	if may, ok := g.subject["may_act"].(map[string]any); ok && (g.actor == nil || g.actor["sub"] != may["sub"]) {
		return nil, refuse("invalid_request", "the actor may not act for the subject")
	}
	if g.audiences, fail = targets(c, form); fail != nil {
		return nil, fail
	}
	if g.scope, fail = i.scopes(c, g.subject, form.Get("scope")); fail != nil {
		return nil, fail
	}
	return i.issue(c, g, f)
}

// inputToken verifies a token that the form carries together with its type: one of ours, or a subject's of an issuer that is trusted.
func (i *Issuer) inputToken(form url.Values, name string) (map[string]any, *oauthError) {
	if !slices.Contains([]string{typeJWT, typeAccessToken, typeIDToken}, form.Get(name+"_type")) {
		return nil, refuse("invalid_request", name+"_type is missing or not supported")
	}
	claims, err := i.Verify(form.Get(name), "")
	if err != nil && i.subject != nil && name == "subject_token" {
		claims, err = i.subject(form.Get(name))
	}
	if sub, _ := claims["sub"].(string); err != nil || sub == "" {
		return nil, refuse("invalid_request", name+" is not accepted")
	}
	return claims, nil
}

// targets checks audience and resource (RFC 8707) against the client.
func targets(c Client, form url.Values) ([]string, *oauthError) {
	for _, res := range form["resource"] {
		u, err := url.Parse(res)
		if err != nil || !u.IsAbs() || u.Fragment != "" || strings.Contains(res, "#") {
			return nil, refuse("invalid_target", "resource must be an absolute URI without a fragment")
		}
	}
	var out []string
	for _, t := range slices.Concat(form["audience"], form["resource"]) {
		if !slices.Contains(c.Audiences, t) {
			return nil, refuse("invalid_target", "the client may not ask for this target")
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, refuse("invalid_target", "audience or resource is required")
	}
	return out, nil
}

// scopes returns what is granted: what was asked for, all of which must be allowed, or else all that is allowed.
func (i *Issuer) scopes(c Client, subject map[string]any, asked string) ([]string, *oauthError) {
	sub, _ := subject["sub"].(string)
	i.mu.Lock()
	limit, limited := i.allowed[sub]
	i.mu.Unlock()
	may := func(s string) bool { return slices.Contains(c.Scopes, s) && (!limited || slices.Contains(limit, s)) }
	if asked == "" {
		return slices.DeleteFunc(slices.Clone(c.Scopes), func(s string) bool { return !may(s) }), nil
	}
	want := strings.Fields(asked)
	if slices.ContainsFunc(want, func(s string) bool { return !may(s) }) {
		return nil, refuse("invalid_scope", "a scope is not allowed")
	}
	return want, nil
}

// issue mints the access token (RFC 9068) and forms the answer.
func (i *Issuer) issue(c Client, g grant, f Faults) (map[string]any, *oauthError) {
	scope := strings.Join(g.scope, " ")
	if f.GrantScope != "" {
		scope = f.GrantScope
	}
	jti, now := newID(), i.now()
	claims := map[string]any{
		"sub": g.subject["sub"], "aud": g.audiences, "client_id": c.ID, "scope": scope, "jti": jti,
		"iat": now.Unix(), "exp": now.Add(i.ttl).Unix(), "act": actClaim(g),
	}
	if len(g.audiences) == 1 {
		claims["aud"] = g.audiences[0]
	}
	if f.WrongAudience != "" {
		claims["aud"] = f.WrongAudience
	}
	if f.OmitAct {
		claims["act"] = nil
	}
	if scope == Omit {
		claims["scope"] = nil
	}
	token, err := i.MintWith(map[string]any{"typ": "at+jwt"}, claims, "ES256")
	if err != nil {
		return nil, &oauthError{status: http.StatusInternalServerError, code: "server_error"}
	}
	i.mu.Lock()
	i.issued = append(i.issued, jti)
	i.mu.Unlock()
	return f.apply(map[string]any{
		"access_token": token, "issued_token_type": typeAccessToken, "token_type": "Bearer",
		"expires_in": int(i.ttl / time.Second), "scope": scope,
	}), nil
}

// actClaim names the actor and keeps earlier ones nested inside (RFC 8693, section 4.1). Without an actor the subject's stays.
func actClaim(g grant) any {
	if g.actor == nil {
		return g.subject["act"]
	}
	act := map[string]any{"sub": g.actor["sub"]}
	if earlier, ok := g.subject["act"]; ok {
		act["act"] = earlier
	}
	return act
}

// apply changes the answer's fields as the faults say.
func (f *Faults) apply(answer map[string]any) map[string]any {
	over := map[string]string{"scope": f.GrantScope, "token_type": f.TokenType, "issued_token_type": f.IssuedTokenType}
	for name, v := range over {
		if v != "" {
			answer[name] = v
		}
		if v == Omit {
			delete(answer, name)
		}
	}
	if string(f.ExpiresIn) == Omit {
		delete(answer, "expires_in")
	} else if f.ExpiresIn != nil {
		answer["expires_in"] = json.RawMessage(f.ExpiresIn)
	}
	return answer
}

// serveRevoke is RFC 7009: any token of ours is remembered as revoked; a token that we do not know is no error.
func (i *Issuer) serveRevoke(w http.ResponseWriter, r *http.Request) {
	if _, fail := i.begin(w, r); fail != nil {
		fail.write(w)
		return
	}
	if claims, err := i.Verify(r.PostForm.Get("token"), ""); err == nil {
		jti, _ := claims["jti"].(string)
		i.mu.Lock()
		i.revoked[jti] = true
		i.mu.Unlock()
	}
	w.WriteHeader(http.StatusOK)
}

// Revoked reports whether the token with this jti was revoked.
func (i *Issuer) Revoked(jti string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.revoked[jti]
}
