package login

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/toolgate/toolgate/killswitch/central"
)

// Settings are how people log in at an issuer.
type Settings struct {
	Issuer       string // exactly as its ID tokens say
	ClientID     string
	ClientSecret string // empty: a public client; PKCE guards the code either way
	Redirect     string // this console's callback, as registered there
	Scopes       []string
	RolesClaim   string
	NameClaim    string // what stands in the log; an e-mail address counts only when the issuer has verified it
	Roles        RoleMap
	Audience     string // of access tokens that the API takes from machines; empty: none are taken

	Client *http.Client     // nil: one with a timeout
	Now    func() time.Time // nil: time.Now
}

// OIDC is the login at an issuer. It asks the issuer nothing before somebody logs in, so that the control plane starts and
// stops things while the issuer is away.
type OIDC struct {
	s        Settings
	sessions *Sessions

	provider atomic.Pointer[oidc.Provider]
	asking   singleflight.Group
}

// issuerTime bounds each request to the issuer; flowLife a login.
const (
	issuerTime = 10 * time.Second
	flowLife   = 10 * time.Minute
)

// NewOIDC checks the settings and returns the login.
func NewOIDC(s Settings, sessions *Sessions) (*OIDC, error) {
	u, err := url.Parse(s.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) {
		return nil, errors.New("the issuer is no https URL; http is for loopback alone")
	}
	if s.ClientID == "" || s.RolesClaim == "" || len(s.Roles) == 0 {
		return nil, errors.New("client id, roles claim or the map of roles is missing: nobody could log in")
	}
	if s.Client == nil {
		s.Client = &http.Client{Timeout: issuerTime}
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if !slices.Contains(s.Scopes, oidc.ScopeOpenID) {
		s.Scopes = append([]string{oidc.ScopeOpenID}, s.Scopes...)
	}
	return &OIDC{s: s, sessions: sessions}, nil
}

func local(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// flow is a login under way, in the browser that began it.
type flow struct {
	State, Nonce, Verifier, Next string
	Ends                         time.Time
}

// Start returns the address at the issuer that the browser must go to. next is where the person wanted to go.
func (o *OIDC) Start(w http.ResponseWriter, r *http.Request, next string) (string, error) {
	config, _, err := o.discover(r.Context())
	if err != nil {
		return "", err
	}
	f := flow{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), next, o.s.Now().Add(flowLife)}
	if err := o.sessions.set(w, flowCookie, f, flowLife); err != nil {
		return "", err
	}
	return config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Finish takes what the browser brings back from the issuer, logs the person in and returns who it is and where they wanted
// to go.
func (o *OIDC) Finish(w http.ResponseWriter, r *http.Request) (p central.Principal, next string, err error) {
	var f flow
	begun := o.sessions.get(r, flowCookie, &f)
	o.sessions.clear(w, flowCookie) // what it brings counts once
	q := r.URL.Query()
	if !begun || !o.s.Now().Before(f.Ends) || f.State == "" || q.Get("state") != f.State {
		return p, "", refuse(NotBegun, nil, "this login was not begun in this browser, or too long ago")
	}
	// RFC 9207: an answer that names its issuer must name ours.
	if iss := q.Get("iss"); iss != "" && iss != o.s.Issuer {
		return p, "", refuse(TokenRefused, nil, "the answer comes from another issuer")
	}
	if code := q.Get("error"); code != "" {
		return p, "", refuse(IssuerRefused, errors.New(short(q.Get("error_description"))), "the issuer says %q", short(code))
	}
	p, err = o.exchange(r.Context(), q.Get("code"), &f)
	if err != nil {
		return p, "", err
	}
	return p, f.Next, o.sessions.Begin(w, p)
}

func short(text string) string { return text[:min(len(text), 200)] }

func (o *OIDC) exchange(ctx context.Context, code string, f *flow) (p central.Principal, err error) {
	config, provider, err := o.discover(ctx)
	if err != nil {
		return p, err
	}
	ctx = oidc.ClientContext(ctx, o.s.Client)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	var refusal *oauth2.RetrieveError
	switch {
	case errors.As(err, &refusal) && refusal.ErrorCode != "":
		// The whole error quotes the answer's body, in which there may be more than a code.
		return p, refuse(IssuerRefused, nil, "the issuer does not take the code: %q", short(refusal.ErrorCode))
	case err != nil:
		return p, refuse(IssuerUnreachable, nil, "the issuer's token endpoint gives no token")
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: o.s.ClientID, Now: o.s.Now}).Verify(ctx, raw)
	if err != nil {
		return p, refuse(TokenRefused, err, "the issuer's ID token is not valid here")
	}
	if id.Nonce != f.Nonce {
		return p, refuse(TokenRefused, nil, "the ID token is of another login")
	}
	// OpenID Connect Core, section 3.1.3.7: an ID token with several audiences says which of them it was made for.
	var made struct {
		For string `json:"azp"`
	}
	if err := id.Claims(&made); err != nil || made.For != o.s.ClientID && (made.For != "" || len(id.Audience) > 1) {
		return p, refuse(TokenRefused, err, "the ID token was made for another client")
	}
	return o.principal(id)
}

// principal reads who a verified token is about.
func (o *OIDC) principal(t *oidc.IDToken) (p central.Principal, err error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return p, refuse(TokenRefused, err, "the token's claims cannot be read")
	}
	p.Name = o.name(t.Subject, claims)
	if p.Name == "" || !o.s.Roles.apply(&p, claimValues(claims, o.s.RolesClaim)) {
		return central.Principal{}, refuse(NoRole, nil, "%q has no role here: nothing in the claim %q is mapped to one", p.Name, o.s.RolesClaim)
	}
	return p, nil
}

// name falls back on the subject, which nobody can choose for themselves.
func (o *OIDC) name(subject string, claims map[string]json.RawMessage) string {
	values := claimValues(claims, o.s.NameClaim)
	var verified bool
	if o.s.NameClaim == "email" && (json.Unmarshal(claims["email_verified"], &verified) != nil || !verified) {
		return subject
	}
	if len(values) != 1 {
		return subject
	}
	return values[0]
}

// discover returns the issuer's endpoints, and remembers them once it has answered. Those who come at once ask once.
func (o *OIDC) discover(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	p := o.provider.Load()
	if p == nil {
		// The provider keeps its context's client to fetch keys with, so that it must outlive the request.
		ctx = oidc.ClientContext(context.WithoutCancel(ctx), o.s.Client)
		found, err, _ := o.asking.Do("", func() (any, error) { return oidc.NewProvider(ctx, o.s.Issuer) })
		if err != nil {
			return nil, nil, refuse(IssuerUnreachable, err, "the issuer cannot be reached, or is not the one that was configured")
		}
		p = found.(*oidc.Provider)
		o.provider.Store(p)
	}
	endpoint := p.Endpoint()
	if o.s.ClientSecret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: o.s.ClientID, ClientSecret: o.s.ClientSecret, Endpoint: endpoint, RedirectURL: o.s.Redirect, Scopes: o.s.Scopes,
	}, p, nil
}

// Host names the issuer to people.
func (o *OIDC) Host() string {
	u, err := url.Parse(o.s.Issuer)
	if err != nil {
		return o.s.Issuer
	}
	return u.Host
}
