package broker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
)

// A retry waits at least retryWait; one that would have to wait longer than maxRetryWait is left to the caller.
const (
	retryWait    = 100 * time.Millisecond
	maxRetryWait = time.Second
)

// tokenClient asks a token endpoint for tokens; what it asks for is the affair of the issuer around it.
type tokenClient struct {
	binding string
	ep      *endpoint
	auth    authenticate
	timeout time.Duration // of one attempt
	prover  *prover       // nil: bearer tokens
	now     func() time.Time
	last    *atomic.Pointer[scopeList]
}

// scopeList is a list of scopes with its text. Most credentials of a binding share one.
type scopeList struct {
	joined string
	list   []string
}

func (t *tokenClient) split(joined string) []string {
	if l := t.last.Load(); l != nil && l.joined == joined {
		return l.list
	}
	l := &scopeList{joined, strings.Fields(joined)}
	t.last.Store(l)
	return l.list
}

func newTokenClient(binding, tokenURL, caFile string, c ClientAuth, timeout time.Duration, in *opening) (tokenClient, error) {
	auth, err := newClientAuth(c, tokenURL, in.now)
	if err != nil {
		return tokenClient{}, err
	}
	ep, err := in.endpoints.get(place{tokenURL, caFile, c.CertFile, c.CertKeyFile}, in.now)
	return tokenClient{binding: binding, ep: ep, auth: auth, timeout: timeout, now: in.now, last: new(atomic.Pointer[scopeList])}, err
}

// bound completes what is known of a binding whose tokens is has from t, and whose dropped ones are ended at the place at, if it has a URL.
func (t *tokenClient) bound(is Issuer, at place, b bound, in *opening) (*bound, error) {
	revoker, err := newRevoker(t, at, in.endpoints)
	if err != nil {
		return nil, err
	}
	b.issuer, b.revoker, b.cached = is, revoker, true
	return &b, nil
}

func (t *tokenClient) breaker() *breaker { return &t.ep.breaker }

// issue asks with the form of build, with one retry at most. build is called for each attempt.
func (t *tokenClient) issue(ctx context.Context, kind string, a *ask, build func() url.Values) (*Credential, error) {
	tok, fail := t.retried(ctx, a, build)
	if fail != nil {
		return nil, fail
	}
	return t.credential(kind, a, tok), nil
}

// retried is issue without making a credential of the token.
func (t *tokenClient) retried(ctx context.Context, a *ask, build func() url.Values) (tok *oauth2.Token, fail *Error) {
	fail = t.twice(ctx, t.ep, func(ctx context.Context) (e *Error) {
		tok, e = t.token(ctx, a, build())
		return e
	})
	return tok, fail
}

// twice is the endpoint's, with a time limit for each attempt.
func (t *tokenClient) twice(ctx context.Context, ep *endpoint, try func(context.Context) *Error) *Error {
	return ep.twice(ctx, t.binding, func() *Error {
		ctx, cancel := context.WithTimeout(ctx, t.timeout)
		defer cancel()
		return try(ctx)
	})
}

// twice makes an attempt in one of the endpoint's slots, and one more where that can help.
func (ep *endpoint) twice(ctx context.Context, binding string, attempt func() *Error) *Error {
	if r := ep.acquire(ctx); r != "" {
		return ep.unasked(ctx, binding, r)
	}
	defer ep.release(ctx)
	fail := attempt()
	if fail != nil && retryable(fail) && wait(ctx, max(fail.RetryAfter, retryWait)) && ep.breaker.pause(tenantOf(ctx), ep.now()) == 0 {
		fail = attempt()
	}
	return fail
}

// issue is twice for an attempt that brings a credential.
func (ep *endpoint) issue(ctx context.Context, binding string, attempt func() (*Credential, *Error)) (c *Credential, err error) {
	fail := ep.twice(ctx, binding, func() (e *Error) {
		c, e = attempt()
		return e
	})
	if fail != nil {
		return nil, fail
	}
	return c, nil
}

// failure is of an answer; a temporary one keeps what the endpoint said of when to come again.
func (t *tokenClient) failure(reason Reason, r reply) *Error {
	e := newError(t.binding, reason)
	if e.Temporary {
		e.RetryAfter = r.retryAfter
	}
	return e
}

// retryable does not include timeouts, since whoever waits has waited long enough, nor being told to ask less.
func retryable(e *Error) bool {
	return (e.Reason == Unreachable || e.Reason == ServerError) && e.RetryAfter <= maxRetryWait
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

// token makes one attempt.
func (t *tokenClient) token(ctx context.Context, a *ask, form url.Values) (*oauth2.Token, *Error) {
	start := t.now()
	r, reason := t.post(ctx, a, form)
	if reason != "" {
		return nil, newError(t.binding, reason)
	}
	tok, reason := a.check(r, start, t.now())
	if reason != "" {
		return nil, t.failure(reason, r)
	}
	return tok, nil
}

// credential is a token that check has passed.
func (t *tokenClient) credential(kind string, a *ask, tok *oauth2.Token) *Credential {
	ref := Ref{
		Binding: t.binding, Kind: kind, Audience: orElse(a.audience, a.resource),
		Scopes: t.split(a.scopes), Expires: tok.Expiry,
	}
	c := newCredential(ref, "Authorization", "Bearer ", tok.AccessToken)
	c.x5t = a.x5t
	if a.proof != nil {
		c.put = newProven(tok.AccessToken, a.proof, &t.prover.upstreams, t.now)
	}
	return c
}

// bindTo has the token of a bound to the caller's key, where the binding says so.
func (t *tokenClient) bindTo(s *Subject, a *ask) (err error) {
	if t.prover == nil {
		return nil
	}
	if a.proof, err = t.prover.keys.of(t.binding, s); err != nil {
		return newError(t.binding, Internal)
	}
	return nil
}

// post sends the form with the client's proof, and once more where the endpoint asks for a nonce. The client authenticates anew then:
// its assertion is good for one request.
func (t *tokenClient) post(ctx context.Context, a *ask, form url.Values) (reply, Reason) {
	for again := false; ; again = true {
		h := make(http.Header)
		if err := t.auth(form, h); err != nil {
			return reply{}, SecretUnreadable
		}
		if a.proof == nil {
			return t.ep.post(ctx, form, h)
		}
		if err := t.prover.prove(t.ep, a.proof, h, t.now()); err != nil {
			return reply{}, Internal
		}
		r, reason := t.ep.post(ctx, form, h)
		if reason != "" {
			return r, reason
		}
		if changed := t.prover.endpoints.note(t.ep.url, r.header); again || !changed || !asksNonce(r) {
			return r, ""
		}
	}
}
