package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
)

const (
	typeIDJAG    = "urn:ietf:params:oauth:token-type:id-jag"
	typeIDToken  = "urn:ietf:params:oauth:token-type:id_token"
	jwtBearer    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	idJAGJWTType = "oauth-id-jag+jwt"
)

// IDJAG is an Identity Assertion Authorization Grant (draft-ietf-oauth-identity-assertion-authz-grant-04): the caller's identity provider
// gives a grant for one client at one authorization server, and that server gives the token.
type IDJAG struct {
	IdentityProvider IdentityProvider

	TokenURL      string // of the authorization server of the resource; https, or http at a literal loopback address
	RevocationURL string // where dropped tokens are revoked (RFC 7009); empty: nowhere
	Issuer        string // that server's identifier, which the grant is for
	Resource      string // absolute URI without fragment (RFC 8707); empty: whatever the server serves
	Audience      string // that a JWT must hold beside or in place of Resource; never sent
	Scopes        []string
	ClientAuth    ClientAuth    // at that server; the grant is for its ClientID
	CAFile        string        // roots for TokenURL; empty: the system's
	MaxTTL        time.Duration // cap of a cached token's life; 0: 15 min
	Timeout       time.Duration // of one attempt; 0: 10 s
}

// IdentityProvider is where the caller's token is exchanged for the grant.
type IdentityProvider struct {
	TokenURL         string // https; http only at a literal loopback address
	ClientAuth       ClientAuth
	SubjectTokenType string // empty: an ID token
	ActorTokenFile   string // the workload's token; empty: no actor is sent
	ActorTokenType   string // empty: urn:ietf:params:oauth:token-type:jwt
	Parameters       []Parameter
	CAFile           string
}

func (c *IDJAG) kind() string { return "id_jag" }
func (c *IDJAG) name() string { return "idJAG" }

func (c *IDJAG) copy() settings {
	x := *c
	x.Scopes, x.IdentityProvider.Parameters = slices.Clone(x.Scopes), slices.Clone(x.IdentityProvider.Parameters)
	return &x
}

func (c *IDJAG) bind(bd *Binding, in *opening) (*bound, error) {
	bd.IDJAG = c
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is := &idJAG{conf: *c}
	is.scopes, _ = joinScopes(c.Scopes)
	var err error
	if is.idp, err = newExchanger(bd.Name, c.firstLeg(), in); err != nil {
		return nil, fmt.Errorf("identityProvider: %w", err)
	}
	if is.tokenClient, err = newTokenClient(bd.Name, c.TokenURL, c.CAFile, c.ClientAuth, c.Timeout, in); err != nil {
		return nil, err
	}
	at := place{c.RevocationURL, c.CAFile, c.ClientAuth.CertFile, c.ClientAuth.CertKeyFile}
	return is.bound(is, at, bound{maxTTL: c.MaxTTL, deadline: 2 * (3*c.Timeout + 2*maxRetryWait)}, in)
}

// firstLeg is the exchange at the identity provider. It has no actor of its own where none is configured, and is no impersonation
// either: the grant names the client that may redeem it.
func (c *IDJAG) firstLeg() TokenExchange {
	p := c.IdentityProvider
	return TokenExchange{
		TokenURL: p.TokenURL, Audience: c.Issuer, Resource: c.Resource, Scopes: c.Scopes, ClientAuth: p.ClientAuth, ActorTokenFile: p.ActorTokenFile,
		SubjectTokenType: orElse(p.SubjectTokenType, typeIDToken), ActorTokenType: orElse(p.ActorTokenType, typeJWT),
		RequestedType: typeIDJAG, Parameters: p.Parameters, CAFile: p.CAFile, Timeout: c.Timeout,
	}
}

func (c *IDJAG) validate() error {
	switch {
	case c.Issuer == "":
		return errors.New("issuer must name the authorization server that the grant is for")
	case c.ClientAuth.ClientID == "":
		return errors.New("clientAuth needs a clientID: the grant is for one client")
	}
	if err := checkURL("identityProvider tokenURL", c.IdentityProvider.TokenURL); err != nil {
		return err
	}
	if err := checkParameters(c.IdentityProvider.Parameters); err != nil {
		return fmt.Errorf("identityProvider: %w", err)
	}
	x := TokenExchange{TokenURL: c.TokenURL, Audience: c.Audience, Resource: c.Resource, Scopes: c.Scopes, Impersonate: true, MaxTTL: c.MaxTTL, Timeout: c.Timeout}
	return x.validate()
}

// idJAG is the issuer of tokens by such a grant. The client of the resource's server is its own; idp is the first leg's.
type idJAG struct {
	tokenClient
	idp    *exchanger
	conf   IDJAG
	scopes string // conf.Scopes, sorted and joined
}

// Key is what is asked for, and in whose name.
func (is *idJAG) Key(s Subject) (Key, error) {
	a, err := is.idp.ask(&s)
	if err != nil {
		return Key{}, err
	}
	return Key{Binding: is.binding, Audience: is.conf.Issuer, Resource: a.resource, Scopes: a.scopes, Workload: a.actor.hash,
		Client: is.conf.ClientAuth.ClientID, RequestedType: typeIDJAG}, nil
}

// Issue gets a grant and redeems it. A grant is good for one attempt, so that a second one begins with another.
func (is *idJAG) Issue(ctx context.Context, s Subject) (*Credential, error) {
	first, err := is.idp.ask(&s)
	if err != nil {
		return nil, err
	}
	if !mayAct(first.subjectToken.Reveal(), first.actor.value.Reveal()) {
		return nil, newError(is.binding, ActorNotAllowed)
	}
	first.client = is.conf.ClientAuth.ClientID
	second := ask{audience: is.conf.Audience, resource: is.conf.Resource, scopes: first.scopes}
	for again := false; ; again = true {
		grant, fail := is.idp.retried(ctx, &first, func() url.Values { return is.idp.form(&first) })
		if fail != nil {
			return nil, fail
		}
		tok, fail := is.redeem(ctx, &second, grant.AccessToken)
		if fail == nil {
			return is.credential("id_jag", &second, tok), nil
		}
		if again || !retryable(fail) || !wait(ctx, max(fail.RetryAfter, retryWait)) {
			return nil, fail
		}
	}
}

// redeem is RFC 7523, section 2.1, with the grant as the assertion.
func (is *idJAG) redeem(ctx context.Context, a *ask, grant string) (*oauth2.Token, *Error) {
	if r := is.ep.acquire(ctx); r != "" {
		return nil, is.ep.unasked(ctx, is.binding, r)
	}
	defer is.ep.release(ctx)
	ctx, cancel := context.WithTimeout(ctx, is.timeout)
	defer cancel()
	form := url.Values{"grant_type": {jwtBearer}, "assertion": {grant}}
	if a.resource != "" {
		form.Set("resource", a.resource)
	}
	if a.scopes != "" {
		form.Set("scope", a.scopes)
	}
	return is.token(ctx, a, form)
}

// checkGrant judges what an identity provider gave as a grant. The token's Expiry is of no use: it is redeemed at once.
func (a *ask) checkGrant(token, tokenType, issued string, now time.Time) Reason {
	typ, c, err := parseTyped(token)
	switch {
	case issued != typeIDJAG || tokenType != "N_A":
		return BadTokenType
	case err != nil || c == nil:
		return BadAnswer
	case typ != idJAGJWTType:
		return BadTokenType
	}
	// Whoever else is in aud could redeem it as well.
	if aud, ok := stringsOf(c.Audience); !ok || len(aud) != 1 || aud[0] != a.audience {
		return WrongAudience
	}
	if id, ok := stringOf(c.Client); !ok || id != a.client {
		return WrongClient
	}
	if id, ok := stringOf(c.ID); !ok || id == "" || absent(c.Expiry) {
		return BadAnswer
	}
	if !absent(c.Resource) && a.resource != "" {
		if list, ok := stringsOf(c.Resource); !ok || len(list) != 1 || list[0] != a.resource {
			return WrongAudience
		}
	}
	return c.check(a, now)
}
