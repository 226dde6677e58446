package broker

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Bounds of the revocations at one issuer. What does not fit is counted as dropped: the tokens end by themselves, and an
// issuer that is down must not fill our memory.
const (
	maxRevocations   = 4096 // waiting
	maxRevokers      = 4    // at a time
	revokeAttempts   = 6
	revokeRetryAfter = time.Second // then doubled
)

// revoker ends issued credentials at their issuer, in the background. It has no goroutine while it has nothing to do.
type revoker struct {
	binding string
	ep      *endpoint
	end     func(context.Context, revocation) (Reason, time.Duration) // one attempt; a reason and the issuer's Retry-After where it failed
	timeout time.Duration                                             // of one attempt
	observe func(Event)
	now     func() time.Time

	mu      sync.Mutex
	pending []revocation
	running int
}

// revocation is one credential to end.
type revocation struct {
	token   redact.Secret
	lease   *lease // Vault's; nil: token is what is ended
	expires time.Time
	tenant  string
}

// newRevoker is that of RFC 7009. It returns nil for a binding without a revocation endpoint.
func newRevoker(t *tokenClient, at place, eps endpoints) (*revoker, error) {
	if at.url == "" {
		return nil, nil
	}
	if err := checkURL("revocationURL", at.url); err != nil {
		return nil, err
	}
	ep, err := eps.get(at, t.now)
	if err != nil {
		return nil, err
	}
	end := func(ctx context.Context, v revocation) (Reason, time.Duration) {
		return endToken(ctx, ep, t.auth, v.token)
	}
	return &revoker{binding: t.binding, ep: ep, end: end, timeout: t.timeout, now: t.now}, nil
}

// push takes a credential that is not to be used any more. It never waits. A nil revoker takes nothing.
func (r *revoker) push(c *Credential, tenant string) {
	if r != nil && c != nil && !r.take(revocationOf(c, tenant)) {
		r.count("dropped", 0)
	}
}

// try ends a credential that nobody has seen, in one attempt. A nil revoker does nothing.
func (r *revoker) try(c *Credential, tenant string) {
	if r != nil {
		_, _ = r.attempt(revocationOf(c, tenant))
	}
}

func revocationOf(c *Credential, tenant string) revocation {
	v := revocation{c.value, c.lease, c.ref.Expires, tenant}
	if c.lease != nil {
		c.lease.drop()
		v.expires = c.lease.end()
	}
	return v
}

func (r *revoker) take(v revocation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= maxRevocations {
		return false
	}
	r.pending = append(r.pending, v)
	if r.running < maxRevokers {
		r.running++
		go r.work()
	}
	return true
}

func (r *revoker) work() {
	for {
		r.mu.Lock()
		if len(r.pending) == 0 {
			r.running--
			r.pending = nil
			r.mu.Unlock()
			return
		}
		next := r.pending[0]
		r.pending = r.pending[1:]
		r.mu.Unlock()
		start := r.now()
		r.count(r.revoke(next), r.now().Sub(start))
	}
}

func (r *revoker) count(result string, took time.Duration) {
	r.observe(Event{Binding: r.binding, Name: "revocation", Result: result, Duration: took})
}

// revoke tries until the issuer has an answer, the token is over by itself, or it has been tried often enough. It returns
// "ok", "expired" or the last Reason.
func (r *revoker) revoke(v revocation) string {
	pause := revokeRetryAfter
	for attempt := 1; ; attempt++ {
		if over(v.expires, r.now()) {
			return "expired"
		}
		reason, retryAfter := r.attempt(v)
		if reason == "" {
			return "ok"
		}
		if attempt == revokeAttempts || !phases[reason].temporary {
			return string(reason)
		}
		wait(context.Background(), max(retryAfter, pause))
		pause *= 2
	}
}

func (r *revoker) attempt(v revocation) (Reason, time.Duration) {
	ctx, cancel := context.WithTimeout(forTenant(context.Background(), v.tenant), r.timeout)
	defer cancel()
	if reason := r.ep.acquire(ctx); reason != "" {
		return reason, 0
	}
	defer r.ep.release(ctx)
	return r.end(ctx, v)
}

// endToken is RFC 7009, section 2.1. A token that the issuer does not know counts as revoked there (section 2.2).
func endToken(ctx context.Context, ep *endpoint, auth authenticate, token redact.Secret) (Reason, time.Duration) {
	form, h := url.Values{"token": {token.Reveal()}, "token_type_hint": {"access_token"}}, make(http.Header)
	if err := auth(form, h); err != nil {
		return SecretUnreadable, 0
	}
	answer, reason := ep.post(ctx, form, h)
	if reason != "" {
		return reason, 0
	}
	return ended(answer)
}

// ended judges the answer to a revocation.
func ended(answer reply) (Reason, time.Duration) {
	switch {
	case answer.status == http.StatusOK || answer.status == http.StatusNoContent:
		return "", 0
	case answer.status == http.StatusTooManyRequests:
		return RateLimited, answer.retryAfter
	case answer.status >= http.StatusInternalServerError:
		return ServerError, answer.retryAfter
	}
	return Refused, 0
}
