package broker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
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
	now     func() time.Time
}

func (t *tokenClient) breaker() *breaker { return &t.ep.breaker }

// issue asks with the form of build, with one retry at most. build is called for each attempt.
func (t *tokenClient) issue(ctx context.Context, kind string, a *ask, build func() url.Values) (*Credential, error) {
	var tok *oauth2.Token
	fail := t.twice(ctx, t.ep, func(ctx context.Context) (e *Error) {
		tok, e = t.token(ctx, a, build())
		return e
	})
	if fail != nil {
		return nil, fail
	}
	ref := Ref{
		Binding: t.binding, Kind: kind, Audience: orElse(a.audience, a.resource),
		Scopes: strings.Fields(a.scopes), Expires: tok.Expiry,
	}
	return newCredential(ref, "Authorization", "Bearer ", tok.AccessToken), nil
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
	h := make(http.Header)
	if err := t.auth(form, h); err != nil {
		return nil, newError(t.binding, SecretUnreadable)
	}
	start := t.now()
	r, reason := t.ep.post(ctx, form, h)
	if reason != "" {
		return nil, newError(t.binding, reason)
	}
	tok, reason := a.check(r, start, t.now())
	if reason != "" {
		return nil, t.failure(reason, r)
	}
	return tok, nil
}
