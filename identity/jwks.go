package identity

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keySet holds one issuer's keys and decides when to fetch. Its rules, against an issuer that is down and against callers that send junk:
// keys are refreshed behind the callers' backs after soft, refused after hard; minRefresh lies between two attempts
// whatever their result; a failed attempt, or one that brings no usable key, changes nothing.
type keySet struct {
	issuer, jwksURL  string // jwksURL is empty where discovery tells it
	client           *http.Client
	token            *TokenFile // of the origin; nil: keys are public
	origin           string     // whom the token is for
	now              func() time.Time
	soft, hard       time.Duration
	minRefresh, wait time.Duration // wait: of one attempt

	current atomic.Pointer[keys] // nil until the first success

	mu        sync.Mutex
	running   *flight
	attempted time.Time // start of the newest attempt
	failure   error     // of the newest finished attempt
}

// keys is one answer of the issuer. It is immutable.
type keys struct {
	all         []jose.JSONWebKey // usable ones
	fingerprint string
	generation  uint64 // grows when the fingerprint changes
	fetched     time.Time
}

// flight is one attempt, shared by all who wait for it.
type flight struct{ done chan struct{} }

func newKeySet(c Issuer, now func() time.Time) *keySet {
	s := &keySet{
		issuer: c.URL, jwksURL: c.JWKSURL, client: keyClient(c.Client), now: now, wait: fetchTimeout,
		hard: cmp.Or(c.HardTTL, defaultHardTTL), minRefresh: cmp.Or(c.MinRefresh, defaultMinRefresh),
	}
	if c.TokenFile != "" {
		s.token, s.origin = &TokenFile{Path: c.TokenFile}, originOf(cmp.Or(c.JWKSURL, c.URL))
	}
	s.soft = cmp.Or(c.SoftTTL, min(defaultSoftTTL, s.hard/2))
	return s
}

// usable returns the keys unless there are none or they are too old to be trusted.
func (s *keySet) usable(now time.Time) *keys {
	k := s.current.Load()
	if k == nil || now.Sub(k.fetched) >= s.hard {
		return nil
	}
	return k
}

// holds reports whether what a key set of this generation verified is still good.
func (s *keySet) holds(generation uint64, now time.Time) bool {
	k := s.usable(now)
	return k != nil && k.generation == generation
}

// anyKey asks get for no key in particular.
func anyKey(*keys) bool { return true }

// get returns the keys once has accepts them. It waits for a fetch only where it holds none that has accepts. Errors:
// ErrUnavailable, or InvalidError "key" when the issuer answered and has still did not accept.
func (s *keySet) get(ctx context.Context, has func(*keys) bool) (*keys, error) {
	s.freshen()
	if k := s.usable(s.now()); k != nil && has(k) {
		return k, nil
	}
	if f := s.refresh(); f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	k := s.usable(s.now())
	switch {
	case k != nil && has(k):
		return k, nil
	case k == nil || s.lastFailure() != nil:
		// With a failed attempt behind us we cannot say that the issuer does not have the key.
		return nil, s.unavailable()
	}
	return nil, invalid("key")
}

// freshen starts a fetch when the keys are due for one, and does not wait.
func (s *keySet) freshen() {
	if k := s.current.Load(); k == nil || s.now().Sub(k.fetched) >= s.soft {
		s.refresh()
	}
}

// refresh returns the running attempt, or starts one, or returns nil when it is too early for another.
func (s *keySet) refresh() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	now := s.now()
	if !s.attempted.IsZero() && now.Sub(s.attempted) < s.minRefresh {
		return nil
	}
	s.attempted = now
	s.running = &flight{done: make(chan struct{})}
	go s.run(s.running)
	return s.running
}

// run makes one attempt. It belongs to no caller: one that gives up must not fail it for the others.
func (s *keySet) run(f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), s.wait)
	defer cancel()
	set, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.replace(set)
	}
	s.failure, s.running = err, nil
	close(f.done)
}

// replace installs a set that fetch accepted. Callers hold mu.
func (s *keySet) replace(set []jose.JSONWebKey) {
	k := &keys{all: set, fingerprint: fingerprint(set), fetched: s.now()}
	if old := s.current.Load(); old != nil {
		k.generation = old.generation
		if old.fingerprint != k.fingerprint {
			k.generation++
		}
	}
	s.current.Store(k)
}

func (s *keySet) lastFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *keySet) unavailable() error {
	if err := s.lastFailure(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return ErrUnavailable
}

func (s *keySet) status(issuer string) KeyStatus {
	out := KeyStatus{Issuer: issuer, Err: s.lastFailure()}
	if k := s.current.Load(); k != nil {
		out.Fetched = k.fetched
		if s.usable(s.now()) != nil {
			out.Keys = len(k.all)
		}
	}
	return out
}
