package broker

import (
	"context"
	"errors"
	"slices"
	"time"
)

// maxFlights bounds the goroutines that callers who come and go can leave behind.
const maxFlights = 1024

// flight is one request to an issuer that any number of callers wait for.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	dropped bool // guarded by Broker.mu until done is closed
	refresh bool // a credential is at hand: what fails changes nothing
	cred    *Credential
	err     *Error
}

// fetch waits for the flight of key and starts it when there is none. A flight that Drop ended says nothing about this
// caller, who may be one that no revocation covers, so it is tried once more.
func (b *Broker) fetch(ctx context.Context, bo *bound, key Key, s Subject) (*Credential, error) {
	for range 2 {
		f, e, err := b.join(ctx, bo, key, s)
		if err != nil {
			return nil, err
		}
		if e != nil {
			return b.fromCache(bo, e, b.now())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		switch err := ctx.Err(); {
		case err != nil:
			return nil, err
		case f.dropped:
			continue
		case f.err != nil:
			err := *f.err
			return nil, &err
		default:
			return f.cred, nil
		}
	}
	return nil, newError(bo.Name, Cancelled)
}

// join returns the flight of key, or the entry that a flight has left since the caller looked.
func (b *Broker) join(ctx context.Context, bo *bound, key Key, s Subject) (*flight, *entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A revocation ends its calls and then comes to Drop, which would not find what began afterwards.
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if f := b.flights[key]; f != nil {
		return f, nil, nil
	}
	if e := b.cache.get(key, b.now()); e != nil {
		return nil, e, nil
	}
	if len(b.flights) >= maxFlights {
		return nil, nil, newError(bo.Name, Overloaded)
	}
	return b.launch(bo, key, s, false), nil, nil
}

// refresh asks for a credential anew while the present one still serves. It is called for one in use only, and by a call that no revocation
// covers.
func (b *Broker) refresh(ctx context.Context, bo *bound, key Key, s Subject) {
	b.mu.Lock()
	free := ctx.Err() == nil && b.flights[key] == nil && len(b.flights) < maxFlights
	if free {
		b.launch(bo, key, s, true)
	}
	b.mu.Unlock()
	if free {
		b.event(bo, "refresh")
	}
}

// launch is called with b.mu held.
func (b *Broker) launch(bo *bound, key Key, s Subject, refresh bool) *flight {
	// Detached from the caller: whoever came first may leave without taking the answer from the rest.
	ctx, cancel := context.WithTimeout(forTenant(context.Background(), s.Tenant), bo.deadline)
	f := &flight{done: make(chan struct{}), cancel: cancel, refresh: refresh}
	b.flights[key] = f
	s.RequiredScopes = slices.Clone(s.RequiredScopes)
	go b.fly(ctx, f, bo, key, s)
	return f
}

func (b *Broker) fly(ctx context.Context, f *flight, bo *bound, key Key, s Subject) {
	defer f.cancel()
	start := b.now()
	cred, err := issue(ctx, bo, s)
	now := b.now()
	if err == nil && (over(cred.ref.Expires, now) || over(s.Expiry, now)) {
		cred, err = nil, newError(bo.Name, Expired)
	}
	e := &entry{packed: pack(key)}
	if err != nil {
		ttl, own := err.negativeFor(), *err // the issuer may keep its error
		if own.Temporary && ttl > 0 {
			own.RetryAfter = ttl
		}
		err = &own
		e.err, e.until = err, now.Add(ttl).UnixNano()
	} else {
		cred = cred.placed(e, false)
		e.cred = cred.placed(e, true)
		inputs := s.Expiry
		if end := time.Unix(cred.within, 0); cred.within != 0 && end.Before(inputs) {
			inputs = end
		}
		until, renewable := cacheUntil(start, cred.cacheable(), inputs, bo.maxTTL)
		if renewable {
			e.refresh.Store(refreshAt(start, until))
		}
		if !until.IsZero() {
			e.until = until.UnixNano()
		}
	}
	f.cred, f.err = cred, err
	b.observe(Event{Binding: bo.Name, Name: "exchange", Result: result(err), Duration: now.Sub(start), Trace: s.Trace})
	if b.land(f, bo, key, e, now) {
		b.event(bo, "evict")
	}
	if f.dropped { // its waiters get nothing, so nobody else has what it brought
		bo.revoker.push(cred, key.Tenant)
	}
}

// land stores what the flight brought, unless it was dropped on the way, and wakes its waiters. It reports an eviction.
func (b *Broker) land(f *flight, bo *bound, key Key, e *entry, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(f.done)
	if f.dropped {
		return false
	}
	delete(b.flights, key)
	if f.refresh && e.err != nil {
		return false
	}
	if !e.good(now) {
		return false
	}
	if e.err == nil && bo.revoker != nil {
		e.follow(b.cache.last(key), now)
	}
	return b.cache.put(key, e)
}

// issue calls the issuer and turns anything but its contract into an Error. A panic would otherwise end the process
// from a goroutine that no server guards, and its value could quote a secret.
func issue(ctx context.Context, bo *bound, s Subject) (c *Credential, e *Error) {
	defer func() {
		if recover() != nil {
			c, e = nil, newError(bo.Name, Internal)
		}
	}()
	c, err := bo.issuer.Issue(ctx, s)
	switch {
	case err == nil && c != nil:
		return c, nil
	case errors.As(err, &e):
		return nil, e
	default:
		return nil, newError(bo.Name, Internal)
	}
}

func over(end, now time.Time) bool { return !end.IsZero() && !now.Before(end) }

func result(e *Error) string {
	if e == nil {
		return "ok"
	}
	return string(e.Reason)
}
