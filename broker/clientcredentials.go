package broker

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"
)

// ClientCredentials is RFC 6749, section 4.4: a token for the sidecar itself, whoever calls.
type ClientCredentials struct {
	TokenURL      string // https; http only at a literal loopback address
	RevocationURL string // where dropped tokens are revoked (RFC 7009); empty: nowhere
	Audience      string
	Resource      string        // absolute URI without fragment (RFC 8707)
	Target        Target        // which of them are sent; a JWT's aud is compared with both all the same
	Scopes        []string      // empty: the manifest's requiredScopes
	Parameters    []Parameter   // of the form, besides those that this package sets
	ClientAuth    ClientAuth    // not none
	CAFile        string        // roots for TokenURL; empty: the system's
	DPoP          bool          // as in TokenExchange
	MaxTTL        time.Duration // cap of a cached token's life; 0: 15 min
	Timeout       time.Duration // of one attempt; 0: 10 s
}

func (c *ClientCredentials) kind() string { return "client_credentials" }
func (c *ClientCredentials) name() string { return "clientCredentials" }

func (c *ClientCredentials) copy() settings {
	x := *c
	x.Scopes, x.Parameters = slices.Clone(x.Scopes), slices.Clone(x.Parameters)
	return &x
}

func (c *ClientCredentials) bind(bd *Binding, in *opening) (*bound, error) {
	bd.ClientCredentials = c
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is, err := newClientCredentials(bd.Name, *c, in)
	if err != nil {
		return nil, err
	}
	at := place{c.RevocationURL, c.CAFile, c.ClientAuth.CertFile, c.ClientAuth.CertKeyFile}
	return is.bound(is, at, bound{maxTTL: c.MaxTTL, deadline: 2*c.Timeout + maxRetryWait}, in)
}

func (c *ClientCredentials) validate() error {
	if c.ClientAuth.Method == "none" {
		return errors.New("clientAuth method none proves nothing, and the client is all that this grant knows")
	}
	x := TokenExchange{
		TokenURL: c.TokenURL, Audience: c.Audience, Resource: c.Resource, Target: c.Target, Scopes: c.Scopes,
		Impersonate: true, Parameters: c.Parameters, MaxTTL: c.MaxTTL, Timeout: c.Timeout,
	}
	return x.validate()
}

// clientCredentials is the issuer of tokens for the sidecar itself.
type clientCredentials struct {
	tokenClient
	conf   ClientCredentials
	scopes string // conf.Scopes, sorted and joined
}

func newClientCredentials(binding string, c ClientCredentials, in *opening) (*clientCredentials, error) {
	client, err := newTokenClient(binding, c.TokenURL, c.CAFile, c.ClientAuth, c.Timeout, in)
	if err != nil {
		return nil, err
	}
	is := &clientCredentials{tokenClient: client, conf: c}
	if c.DPoP {
		is.prover = &prover{keys: in.proofs}
	}
	is.scopes, _ = joinScopes(c.Scopes)
	return is, nil
}

func (is *clientCredentials) ask(s *Subject) (ask, error) {
	if s.Subject == "" || s.Tool == "" {
		return ask{}, newError(is.binding, NoIdentity)
	}
	a := ask{audience: is.conf.Audience, resource: is.conf.Resource, scopes: is.scopes}
	if len(is.conf.Scopes) == 0 {
		var ok bool
		if a.scopes, ok = joinScopes(s.RequiredScopes); !ok {
			return ask{}, newError(is.binding, InvalidScope)
		}
	}
	return a, is.bindTo(s, &a)
}

// Key is what is asked for; in whose name the configuration says.
func (is *clientCredentials) Key(s Subject) (Key, error) {
	a, err := is.ask(&s)
	if err != nil {
		return Key{}, err
	}
	return Key{Binding: is.binding, Audience: a.audience, Resource: a.resource, Scopes: a.scopes, Client: is.conf.ClientAuth.ClientID,
		Thumbprint: a.proof.thumbprint()}, nil
}

// Issue asks for a token, with one retry at most.
func (is *clientCredentials) Issue(ctx context.Context, s Subject) (*Credential, error) {
	a, err := is.ask(&s)
	if err != nil {
		return nil, err
	}
	return is.issue(ctx, "client_credentials", &a, func() url.Values {
		form := url.Values{"grant_type": {"client_credentials"}}
		is.conf.Target.set(form, a.audience, a.resource)
		if a.scopes != "" {
			form.Set("scope", a.scopes)
		}
		for _, p := range is.conf.Parameters {
			form.Set(p.Name, p.Value)
		}
		return form
	})
}
