package broker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/redact"
)

const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

// A retry waits at least retryWait; one that would have to wait longer than maxRetryWait is left to the caller.
const (
	retryWait    = 100 * time.Millisecond
	maxRetryWait = time.Second
)

// exchanger is the issuer of RFC 8693: the caller's token for one that only the target accepts.
type exchanger struct {
	binding string
	conf    TokenExchange
	scopes  string // conf.Scopes, sorted and joined
	ep      *endpoint
	auth    authenticate
	actor   *watched[line] // nil: no actor token is sent
	now     func() time.Time
}

func newExchanger(binding string, c TokenExchange, eps endpoints, now func() time.Time) (*exchanger, error) {
	auth, err := newClientAuth(c.ClientAuth, c.TokenURL, now)
	if err != nil {
		return nil, err
	}
	x := &exchanger{binding: binding, conf: c, auth: auth, now: now}
	x.scopes, _ = joinScopes(c.Scopes)
	if c.ActorTokenFile != "" {
		x.actor = watchLine(c.ActorTokenFile)
		if _, err := x.actor.get(); err != nil {
			return nil, fileProblem("actorTokenFile", c.ActorTokenFile, err)
		}
	}
	x.ep, err = eps.get(c.TokenURL, c.CAFile, now)
	return x, err
}

// ask is what one exchange asks for.
type ask struct {
	audience, resource string
	scopes             string // sorted, joined
	subject            string // the caller's sub
	subjectToken       redact.Secret
	actor              line // zero: none
}

func (x *exchanger) ask(s *Subject) (ask, error) {
	a := ask{audience: x.conf.Audience, resource: x.conf.Resource, scopes: x.scopes, subject: s.Subject, subjectToken: s.Token}
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
	return Key{Binding: x.binding, Audience: a.audience, Resource: a.resource, Scopes: a.scopes, Workload: a.actor.hash}, nil
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
	if r := x.ep.acquire(ctx); r != "" {
		return nil, newError(x.binding, r)
	}
	defer x.ep.release()
	c, fail := x.attempt(ctx, &a)
	if fail != nil && retryable(fail) && wait(ctx, max(fail.RetryAfter, retryWait)) {
		c, fail = x.attempt(ctx, &a)
	}
	if fail != nil {
		return nil, fail
	}
	return c, nil
}

// retryable does not include timeouts: whoever waits has waited long enough.
func retryable(e *Error) bool {
	return (e.Reason == Unreachable || e.Reason == ServerError || e.Reason == RateLimited) && e.RetryAfter <= maxRetryWait
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x *exchanger) attempt(ctx context.Context, a *ask) (*Credential, *Error) {
	ctx, cancel := context.WithTimeout(ctx, x.conf.Timeout)
	defer cancel()
	form, h := x.form(a), make(http.Header)
	if err := x.auth(form, h); err != nil {
		return nil, newError(x.binding, SecretUnreadable)
	}
	start := x.now()
	r, reason := x.ep.post(ctx, form, h)
	if reason != "" {
		return nil, newError(x.binding, reason)
	}
	tok, reason := a.check(r, start, x.now())
	if reason != "" {
		e := newError(x.binding, reason)
		if e.Temporary {
			e.RetryAfter = r.retryAfter
		}
		return nil, e
	}
	ref := Ref{
		Binding: x.binding, Kind: "token_exchange", Audience: orElse(a.audience, a.resource),
		Scopes: strings.Fields(a.scopes), Expires: tok.Expiry,
	}
	return newCredential(ref, "Authorization", "Bearer ", tok.AccessToken), nil
}

// form is RFC 8693, section 2.1.
func (x *exchanger) form(a *ask) url.Values {
	form := url.Values{
		"grant_type":           {grantType},
		"subject_token":        {a.subjectToken.Reveal()},
		"subject_token_type":   {x.conf.SubjectTokenType},
		"requested_token_type": {typeAccessToken},
	}
	if x.actor != nil {
		form.Set("actor_token", a.actor.value.Reveal())
		form.Set("actor_token_type", x.conf.ActorTokenType)
	}
	for name, v := range map[string]string{"audience": a.audience, "resource": a.resource, "scope": a.scopes} {
		if v != "" {
			form.Set(name, v)
		}
	}
	return form
}
