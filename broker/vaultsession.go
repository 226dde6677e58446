package broker

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/go-json-experiment/json"

	"github.com/toolgate/toolgate/redact"
)

// maxSessions bounds the logins of one binding; one pushed out ends by itself.
const maxSessions = 1024

// vaultToken is what a login gave. Vault ends every lease with the token that it was given to.
type vaultToken struct {
	value     redact.Secret
	renewable bool

	mu      sync.Mutex
	expires time.Time // zero: never
}

// before returns t, or the token's own end if that is earlier.
func (v *vaultToken) before(t time.Time) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.expires.IsZero() && v.expires.Before(t) {
		return v.expires
	}
	return t
}

func (v *vaultToken) extend(until time.Time) { v.mu.Lock(); v.expires = until; v.mu.Unlock() }

// sessions are the logins of a binding, by the hash of the JWT that they were made with.
type sessions struct {
	turn chan struct{} // one login at a time: those who wait use what it brings
	kept *lru.Cache[string, *vaultToken]
}

func newSessions() *sessions {
	kept, err := lru.New[string, *vaultToken](maxSessions)
	if err != nil {
		panic("broker: sessions: " + err.Error())
	}
	return &sessions{make(chan struct{}, 1), kept}
}

// spent is how much of its life a token must have left to be used for a new secret.
const spent = 10 * time.Second

func (s *sessions) find(key string, now time.Time) *vaultToken {
	v, ok := s.kept.Get(key)
	if !ok || v.before(now.Add(spent)) != now.Add(spent) {
		return nil
	}
	return v
}

// forget takes out a token that Vault refuses, unless another has taken its place.
func (s *sessions) forget(key string, v *vaultToken) {
	if kept, ok := s.kept.Peek(key); ok && kept == v {
		s.kept.Remove(key)
	}
}

// login returns the token of the session of proof, or of a new one. The reply is of a login that failed.
func (is *vault) login(ctx context.Context, proof line) (*vaultToken, reply, Reason) {
	if v := is.sessions.find(proof.hash, is.now()); v != nil {
		return v, reply{}, ""
	}
	select {
	case is.sessions.turn <- struct{}{}:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, reply{}, Cancelled
		}
		return nil, reply{}, Timeout
	}
	defer func() { <-is.sessions.turn }()
	start := is.now()
	if v := is.sessions.find(proof.hash, start); v != nil {
		return v, reply{}, ""
	}
	r, reason := is.call(ctx, http.MethodPost, is.conf.Address+"/v1/auth/"+is.conf.AuthPath+"/login", redact.Secret{},
		map[string]string{"role": is.conf.Role, "jwt": proof.value.Reveal()})
	if reason != "" {
		return nil, r, reason
	}
	v, reason := loggedIn(r, start)
	if reason == "" {
		is.sessions.kept.Add(proof.hash, v)
	}
	return v, r, reason
}

func loggedIn(r reply, start time.Time) (*vaultToken, Reason) {
	switch {
	case r.status == http.StatusBadRequest || r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		return nil, InvalidGrant // whether the role or the JWT is at fault it tells in words only
	case r.status != http.StatusOK:
		return nil, vaultRefusal(r)
	}
	var ans vaultAnswer
	if err := json.Unmarshal(r.body, &ans); err != nil || ans.Auth == nil || !isToken(ans.Auth.ClientToken) || ans.Auth.LeaseDuration < 0 {
		return nil, BadAnswer
	}
	v := &vaultToken{value: redact.New(ans.Auth.ClientToken), renewable: ans.Auth.Renewable}
	if ans.Auth.LeaseDuration > 0 {
		v.expires = start.Add(seconds(ans.Auth.LeaseDuration))
	}
	return v, ""
}

// renewSelf keeps a token alive beyond until, if it can.
func (is *vault) renewSelf(ctx context.Context, v *vaultToken, until time.Time) {
	if !v.renewable || v.before(until).Equal(until) {
		return
	}
	start := is.now()
	r, reason := is.call(ctx, http.MethodPost, is.conf.Address+"/v1/auth/token/renew-self", v.value, map[string]string{})
	var ans vaultAnswer
	if reason == "" && r.status == http.StatusOK && json.Unmarshal(r.body, &ans) == nil && ans.Auth != nil && ans.Auth.LeaseDuration > 0 {
		v.extend(start.Add(seconds(ans.Auth.LeaseDuration)))
	}
}
