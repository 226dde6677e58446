package broker

import (
	"context"
	"net/url"
	"time"

	"github.com/toolgate/toolgate/redact"
)

const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

// exchanger is the issuer of RFC 8693: the caller's token for one that only the target accepts.
type exchanger struct {
	tokenClient
	conf   TokenExchange
	scopes string         // conf.Scopes, sorted and joined
	actor  *watched[line] // nil: no actor token is sent
}

func newExchanger(binding string, c TokenExchange, eps endpoints, now func() time.Time) (*exchanger, error) {
	auth, err := newClientAuth(c.ClientAuth, c.TokenURL, now)
	if err != nil {
		return nil, err
	}
	x := &exchanger{tokenClient: tokenClient{binding: binding, auth: auth, timeout: c.Timeout, now: now}, conf: c}
	x.scopes, _ = joinScopes(c.Scopes)
	if c.ActorTokenFile != "" {
		x.actor = watchLine(c.ActorTokenFile)
		x.actor.every = time.Second // it is in the key, so it is asked for at each call
		if _, err := x.actor.get(); err != nil {
			return nil, fileProblem("actorTokenFile", c.ActorTokenFile, err)
		}
	}
	x.ep, err = eps.get(place{c.TokenURL, c.CAFile, c.ClientAuth.CertFile, c.ClientAuth.CertKeyFile}, now)
	return x, err
}

// ask is what one request asks for, and so what its answer is held against.
type ask struct {
	audience, resource string
	scopes             string // sorted, joined
	exchange           bool   // false: nobody is spoken for, so the answer names no issued_token_type and no subject of ours
	issuedType         string // the only one taken; empty: an access token or a JWT
	subject            string // the caller's sub
	subjectToken       redact.Secret
	actor              line // zero: none
}

func (x *exchanger) ask(s *Subject) (ask, error) {
	a := ask{
		audience: x.conf.Audience, resource: x.conf.Resource, scopes: x.scopes, exchange: true, issuedType: x.conf.RequestedType,
		subject: s.Subject, subjectToken: s.Token,
	}
	switch {
	case s.Subject == "" || s.Tool == "":
		return ask{}, newError(x.binding, NoIdentity)
	case s.Token.IsZero():
		return ask{}, newError(x.binding, NoSubjectToken)
	}
	if len(x.conf.Scopes) == 0 {
		var ok bool
		if a.scopes, ok = joinScopes(s.RequiredScopes); !ok {
			return ask{}, newError(x.binding, InvalidScope)
		}
	}
	if x.actor != nil {
		var err error
		if a.actor, err = x.actor.get(); err != nil {
			return ask{}, newError(x.binding, SecretUnreadable)
		}
	}
	return a, nil
}

// Key is what is asked for, and in whose name.
func (x *exchanger) Key(s Subject) (Key, error) {
	a, err := x.ask(&s)
	if err != nil {
		return Key{}, err
	}
	return Key{Binding: x.binding, Audience: a.audience, Resource: a.resource, Scopes: a.scopes, Workload: a.actor.hash,
		Client: x.conf.ClientAuth.ClientID, RequestedType: x.conf.RequestedType}, nil
}

// Issue exchanges the caller's token, with one retry at most.
func (x *exchanger) Issue(ctx context.Context, s Subject) (*Credential, error) {
	a, err := x.ask(&s)
	if err != nil {
		return nil, err
	}
	if !mayAct(a.subjectToken.Reveal(), a.actor.value.Reveal()) {
		return nil, newError(x.binding, ActorNotAllowed)
	}
	c, err := x.issue(ctx, "token_exchange", &a, func() url.Values { return x.form(&a) })
	if err != nil {
		return nil, err
	}
	c.within = endOf(a.actor.value.Reveal()) // a delegation is not to outlive the workload that it was given to
	return c, nil
}

// form is RFC 8693, section 2.1.
func (x *exchanger) form(a *ask) url.Values {
	form := url.Values{
		"grant_type":           {orElse(x.conf.GrantType, grantType)},
		"subject_token":        {a.subjectToken.Reveal()},
		"subject_token_type":   {x.conf.SubjectTokenType},
		"requested_token_type": {orElse(x.conf.RequestedType, typeAccessToken)},
	}
	if x.actor != nil {
		form.Set("actor_token", a.actor.value.Reveal())
		form.Set("actor_token_type", x.conf.ActorTokenType)
	}
	x.conf.Target.set(form, a.audience, a.resource)
	if a.scopes != "" {
		form.Set("scope", a.scopes)
	}
	for _, p := range x.conf.Parameters {
		form.Set(p.Name, p.Value)
	}
	return form
}
