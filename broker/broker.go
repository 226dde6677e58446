package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Subject is for whom a credential is asked: the caller and the tool of one call.
type Subject struct {
	Issuer, Subject, Tenant, Agent, Task, Run string
	TokenID                                   string
	Token                                     redact.Secret // the caller's token, the subject_token of an exchange; zero when there is none
	TokenHash                                 Hash          // of Token, where it is known already; zero: not
	Expiry                                    time.Time     // of Token; zero: unknown, and then nothing is cached
	Tool, Version                             string
	RequiredScopes                            []string // the manifest's
	Trace                                     string   // id of the trace that the call is found in, for the Event; "": none. It keeps no two calls apart
}

// Issuer gives a credential for a subject. Implementations do not cache; they return *Error only, finish when ctx
// ends, and are safe for concurrent use.
type Issuer interface {
	Issue(ctx context.Context, s Subject) (*Credential, error)
	// Key fills the parts of the cache key that this issuer's configuration and files decide.
	Key(s Subject) (Key, error)
}

// Options of a Broker.
type Options struct {
	Generation string           // part of every cache key
	CacheSize  int              // 0: 4096
	Observe    func(Event)      // called for every exchange and cache event; may be nil
	Now        func() time.Time // nil: time.Now
}

// Event is one thing to count.
type Event struct {
	Binding  string
	Name     string        // "exchange", "cache" or "revocation"
	Result   string        // exchange: "ok" or the Reason; cache: "hit", "miss", "negative", "refresh", "evict", "drop", "refused"; revocation: "ok", "expired", "dropped" or the Reason
	Duration time.Duration // not of cache
	Trace    string        // of exchange: that of the call that began it, which others may have waited with; "": none
}

// Broker finds bindings and gives credentials. Create it with New.
type Broker struct {
	generation string
	observe    func(Event)
	now        func() time.Time
	routes     map[route]*Binding
	bound      map[*Binding]*bound
	revokers   map[string]*revoker // by binding
	cache      *cache
	proofs     *proofs

	mu      sync.Mutex // also held where the cache is written, so that Drop and a finishing flight exclude each other
	flights map[Key]*flight
	earlier *Broker // see Succeed; nil: none
}

// route is what a binding is found by.
type route struct {
	tool, host string
	port       uint16
}

// bound is a binding with the issuer that serves it.
type bound struct {
	*Binding
	issuer   Issuer
	pair     *clientCert   // nil: connections are made without a certificate
	revoker  *revoker      // nil: issued tokens end by themselves only
	cached   bool          // false: the issuer is asked each time, in the caller's own goroutine
	maxTTL   time.Duration // of a cached credential
	deadline time.Duration // of one request to the issuer, retry included
}

// New returns a broker. It reads key files, so that a bad one is an error at load; it contacts nothing.
// The error joins everything that is wrong; each part names its binding and, for a file, the file.
func New(bindings []Binding, o Options) (*Broker, error) {
	if o.CacheSize <= 0 {
		o.CacheSize = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	b := &Broker{
		generation: o.Generation,
		observe:    o.Observe,
		now:        o.Now,
		routes:     make(map[route]*Binding),
		bound:      make(map[*Binding]*bound),
		revokers:   make(map[string]*revoker),
		cache:      newCache(o.CacheSize),
		proofs:     newProofs(o.CacheSize),
		flights:    make(map[Key]*flight),
	}
	var problems []error
	names := make(map[string]bool)
	in := &opening{endpoints: make(endpoints), proofs: b.proofs, now: o.Now}
	for _, bd := range bindings {
		if names[bd.Name] {
			problems = append(problems, fmt.Errorf("binding %q: the name is used twice", bd.Name))
			continue
		}
		names[bd.Name] = true
		if err := b.add(bd, in); err != nil {
			problems = append(problems, fmt.Errorf("binding %q: %w", bd.Name, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return b, nil
}

func (b *Broker) add(given Binding, in *opening) error {
	bo, err := newBound(given, in)
	if err != nil {
		return err
	}
	bd := bo.Binding
	for _, target := range bd.Targets {
		host, port, err := splitTarget(target)
		if err != nil {
			return err
		}
		for _, tool := range bd.Tools {
			r := route{tool, host, port}
			if other := b.routes[r]; other != nil {
				return fmt.Errorf("tool %q and target %q already belong to binding %q", tool, target, other.Name)
			}
			b.routes[r] = bd
		}
	}
	b.bound[bd] = bo
	if bo.revoker != nil {
		bo.revoker.observe = b.observe
		b.revokers[bd.Name] = bo.revoker
	}
	return nil
}

func splitTarget(target string) (string, uint16, error) {
	host, p, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("target %q is not host:port", target)
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("target %q has no valid port", target)
	}
	for _, c := range []byte(host) {
		if c <= ' ' || c >= 0x7f || c == '*' || c == '/' || c == '@' || 'A' <= c && c <= 'Z' {
			return "", 0, fmt.Errorf("target %q is not a canonical host", target)
		}
	}
	return host, uint16(port), nil
}

// Find returns the binding of tool for a canonical target, or nil.
func (b *Broker) Find(tool, host string, port uint16) *Binding {
	return b.routes[route{tool, host, port}]
}

// Credential returns the credential of a binding for s, from the cache or from its issuer. Concurrent calls for one
// key share one request, which outlives any single caller's ctx. A token is cached until its expiry less a skew, never past the
// subject token's; failures are cached for seconds. Errors: *Error, or ctx's.
func (b *Broker) Credential(ctx context.Context, bd *Binding, s Subject) (*Credential, error) {
	// A call that was cut must not get a credential, not even one at hand.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	bo, err := b.admit(bd, &s)
	if err != nil {
		return nil, err
	}
	if bo.pair != nil {
		return b.certified(ctx, bo, s)
	}
	return b.credential(ctx, bo, s, "")
}

// credential is Credential for who is admitted, and for connections made with the certificate of that thumbprint.
func (b *Broker) credential(ctx context.Context, bo *bound, s Subject, certificate string) (*Credential, error) {
	if !bo.cached {
		return bo.issuer.Issue(ctx, s)
	}
	key, keyErr := b.key(bo, &s)
	if keyErr != nil {
		return nil, keyErr
	}
	key.Certificate = certificate
	now := b.now()
	if e := b.cache.get(key, now); e != nil {
		if e.due(now) {
			b.refresh(ctx, bo, key, s)
		}
		return b.fromCache(bo, e, now)
	}
	b.event(bo, "miss")
	return b.fetch(ctx, bo, key, s)
}

// admit refuses what must never share a bucket or reach an issuer.
func (b *Broker) admit(bd *Binding, s *Subject) (*bound, error) {
	bo := b.bound[bd]
	switch {
	case bd == nil:
		return nil, newError("", NotBound)
	case bo == nil || !slices.Contains(bo.Tools, s.Tool) && s.Tool != "":
		return nil, newError(bd.Name, NotBound)
	case s.Subject == "" || s.Tool == "":
		return nil, newError(bd.Name, NoIdentity)
	case !s.Expiry.IsZero() && !b.now().Before(s.Expiry):
		return nil, newError(bd.Name, SubjectExpired)
	}
	return bo, nil
}

func (b *Broker) key(bo *bound, s *Subject) (Key, error) {
	k, err := bo.issuer.Key(*s)
	if err != nil {
		return Key{}, err
	}
	k.Binding, k.Generation = bo.Name, b.generation
	k.Issuer, k.Subject, k.Tenant, k.Agent, k.Task, k.Run = s.Issuer, s.Subject, s.Tenant, s.Agent, s.Task, s.Run
	if k.TokenID, k.TokenHash = s.TokenID, s.TokenHash; k.TokenHash == (Hash{}) {
		k.TokenHash = hashOf(s.Token.Reveal())
	}
	k.Tool, k.Version = s.Tool, s.Version
	return k, nil
}

func (b *Broker) fromCache(bo *bound, e *entry, now time.Time) (*Credential, error) {
	if e.err == nil {
		b.event(bo, "hit")
		return e.cred, nil
	}
	b.event(bo, "negative")
	err := *e.err
	if err.Temporary {
		err.RetryAfter = time.Duration(e.until - now.UnixNano())
	}
	return nil, &err
}

func (b *Broker) event(bo *bound, result string) {
	b.observe(Event{Binding: bo.Name, Name: "cache", Result: result})
}

// Drop removes the cached credentials whose key matches, and keeps those being fetched now from being stored. Where the
// binding has a revocation endpoint both are revoked there as well, later and by others. It returns how many were removed. Whoever waits for one of the latter asks again, if its own ctx still lives.
// match must not call the broker.
func (b *Broker) Drop(match func(Key) bool) int {
	b.mu.Lock()
	for k, f := range b.flights {
		if match(k) {
			f.dropped = true
			f.cancel()
			delete(b.flights, k)
		}
	}
	dropped := b.cache.drop(match)
	b.mu.Unlock()
	b.proofs.drop(match)
	for _, c := range dropped {
		k := c.key()
		b.observe(Event{Binding: k.Binding, Name: "cache", Result: "drop"})
		for e := c; e != nil; e = e.before { // nobody changes what is out of the cache
			b.revokers[k.Binding].push(e.cred, k.Tenant)
		}
	}
	if earlier := b.succeeded(); earlier != nil {
		return len(dropped) + earlier.Drop(match)
	}
	return len(dropped)
}

// Close ends what issuers keep open at their servers, such as logins and leases, until ctx ends. The broker must not be used then.
func (b *Broker) Close(ctx context.Context) {
	var wg sync.WaitGroup
	if earlier := b.succeeded(); earlier != nil {
		wg.Go(func() { earlier.Close(ctx) })
	}
	for _, bo := range b.bound {
		if is, ok := bo.issuer.(interface{ close(context.Context) }); ok {
			wg.Go(func() { is.close(ctx) })
		}
	}
	wg.Wait()
}

// Forget removes c from the cache: the upstream has refused it. It reports whether asking again may bring another. A credential that was not
// from the cache is as good as any that would come, and where one of the same key was forgotten within refusedPause, it is not the credential
// that the upstream minds.
func (b *Broker) Forget(c *Credential) bool {
	if c == nil || c.at == nil {
		return false
	}
	b.mu.Lock()
	removed, gone := b.cache.forget(c.at, b.now())
	b.mu.Unlock()
	if removed {
		b.observe(Event{Binding: c.ref.Binding, Name: "cache", Result: "refused"})
	}
	return gone && c.ref.Cached
}

// Breakers returns the state of the breaker of each binding that asks a token endpoint.
func (b *Broker) Breakers() map[string]State {
	states := make(map[string]State)
	for _, bo := range b.bound {
		if is, ok := bo.issuer.(interface{ breaker() *breaker }); ok {
			states[bo.Name] = is.breaker().state()
		}
	}
	return states
}
