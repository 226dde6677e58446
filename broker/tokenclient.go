package broker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	return t.ep.issue(ctx, t.binding, func() (*Credential, *Error) { return t.attempt(ctx, kind, a, build()) })
}

// issue makes an attempt within the endpoint's limit, and one more if that can help.
func (ep *endpoint) issue(ctx context.Context, binding string, attempt func() (*Credential, *Error)) (*Credential, error) {
	if r := ep.acquire(ctx); r != "" {
		return nil, ep.unasked(ctx, binding, r)
	}
	defer ep.release(ctx)
	c, fail := attempt()
	if fail != nil && retryable(fail) && wait(ctx, max(fail.RetryAfter, retryWait)) && ep.breaker.pause(tenantOf(ctx), ep.now()) == 0 {
		c, fail = attempt()
	}
	if fail != nil {
		return nil, fail
	}
	return c, nil
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

func (t *tokenClient) attempt(ctx context.Context, kind string, a *ask, form url.Values) (*Credential, *Error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
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
		e := newError(t.binding, reason)
		if e.Temporary {
			e.RetryAfter = r.retryAfter
		}
		return nil, e
	}
	ref := Ref{
		Binding: t.binding, Kind: kind, Audience: orElse(a.audience, a.resource),
		Scopes: strings.Fields(a.scopes), Expires: tok.Expiry,
	}
	return newCredential(ref, "Authorization", "Bearer ", tok.AccessToken), nil
}
