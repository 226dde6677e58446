package broker

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// entry is a credential or a failure, good while now is before until. The expiry is in the value because tokens of one
// cache end at different times.
type entry struct {
	packed
	cred    *Credential
	err     *Error
	until   int64        // in ns, as refresh
	refresh atomic.Int64 // when the credential should be asked for anew, in ns; 0: never
	dropped atomic.Bool  // not to be sent any more, whoever still holds the credential
	refused atomic.Bool  // by an upstream: not to be given out any more
	before  *entry       // whose place it took; nil: none that has to be revoked. Guarded by Broker.mu
}

func (e *entry) good(now time.Time) bool { return now.UnixNano() < e.until }

// due reports whether a credential in use should be asked for anew, and puts off the next question.
func (e *entry) due(now time.Time) bool {
	at := e.refresh.Load()
	return at != 0 && now.UnixNano() >= at && e.refresh.CompareAndSwap(at, now.Add(refreshPause).UnixNano())
}

// maxBefore bounds the credentials of one key that may have to be revoked beside the present one.
const maxBefore = 16

// follow keeps old, and those before it, as long as an issuer may still take them: the cache gives a credential out for a shorter time than
// that, and a revocation is to end all of them.
func (e *entry) follow(old *entry, now time.Time) {
	last := e
	for n := 0; old != nil && n < maxBefore; old = old.before {
		if !old.cred.ended(now) && !old.cred.Same(e.cred) {
			last.before, last = old, old
			n++
		}
	}
	last.before = nil
}

// cache keeps failures apart from credentials, so that a caller who fails often cannot push out what others use. It finds by a hash of the
// key and believes the key itself only.
type cache struct {
	place     func(Key) uint64
	good, bad *lru.Cache[uint64, *entry]
	refused   *lru.Cache[uint64, time.Time] // when an upstream refused what was good
}

// newCache holds at most size credentials and as many failures. size is positive.
func newCache(size int) *cache {
	seed := maphash.MakeSeed()
	return &cache{func(k Key) uint64 { return maphash.Comparable(seed, k) }, newLRU[*entry](size), newLRU[*entry](size), newLRU[time.Time](size)}
}

func newLRU[V any](size int) *lru.Cache[uint64, V] {
	c, err := lru.New[uint64, V](size)
	if err != nil { // of a size that is not positive only
		panic("broker: cache size: " + err.Error())
	}
	return c
}

func (c *cache) get(k Key, now time.Time) *entry {
	at := c.place(k)
	if e, ok := c.good.Get(at); ok && e.good(now) && !e.refused.Load() && e.key() == k && e.cred.alive(now) {
		return e
	}
	if c.bad.Len() == 0 {
		return nil
	}
	if e, ok := c.bad.Get(at); ok && e.good(now) && e.key() == k {
		return e
	}
	return nil
}

// last returns the credential that was kept for k last, whether it may still be given out or not.
func (c *cache) last(k Key) *entry {
	if e, ok := c.good.Peek(c.place(k)); ok && e.key() == k {
		return e
	}
	return nil
}

// put stores e and reports whether another credential was pushed out.
func (c *cache) put(k Key, e *entry) bool {
	at := c.place(k)
	if e.err != nil {
		c.bad.Add(at, e)
		return false
	}
	c.bad.Remove(at)
	return c.good.Add(at, e)
}

// drop removes what matches and returns the credentials among it.
func (c *cache) drop(match func(Key) bool) []*entry {
	var dropped []*entry
	for _, at := range c.good.Keys() {
		if e, ok := c.good.Peek(at); ok && match(e.key()) {
			for x := e; x != nil; x = x.before {
				x.dropped.Store(true)
			}
			c.good.Remove(at)
			dropped = append(dropped, e)
		}
	}
	for _, at := range c.bad.Keys() {
		if e, ok := c.bad.Peek(at); ok && match(e.key()) {
			c.bad.Remove(at)
		}
	}
	return dropped
}

// An upstream that refuses whatever it is shown must not have the issuer asked at each call.
const refusedPause = 30 * time.Second

// forget has e not given out again if it is still there and no other of its key has been refused of late. It reports whether it did, and
// whether e is not given out again, by whomever. e stays where a revocation finds it.
func (c *cache) forget(e *entry, now time.Time) (removed, gone bool) {
	at := c.place(e.key())
	if present, ok := c.good.Peek(at); !ok || present != e || e.refused.Load() {
		return false, !e.dropped.Load()
	}
	if last, ok := c.refused.Get(at); ok && now.Sub(last) < refusedPause {
		return false, false
	}
	c.refused.Add(at, now)
	e.refused.Store(true)
	return true, true
}

const maxSkew = 30 * time.Second

// cacheUntil returns until when a credential asked for at start may be given out again: the earliest of its own end, that
// of the tokens it was had for and the binding's cap, less a skew for clocks and for the request's own way. The zero time means never
// again, which is what an unknown end gives. It is renewable if asking again would bring a later end.
func cacheUntil(start, expires, inputs time.Time, maxTTL time.Duration) (until time.Time, renewable bool) {
	if expires.IsZero() || inputs.IsZero() {
		return time.Time{}, false
	}
	end := start.Add(maxTTL)
	if expires.Before(end) {
		end = expires
	}
	renewable = end.Before(inputs)
	if !renewable {
		end = inputs
	}
	life := end.Sub(start)
	if life <= 0 {
		return time.Time{}, false
	}
	return end.Add(-min(maxSkew, life/10)), renewable
}

// refreshPause is how long a refresh that failed is not tried again.
const refreshPause = 10 * time.Second

// refreshAt is after 80 % of the time that a credential is given out, and up to a tenth of that earlier or later, so that what was asked
// for at once is not asked for at once again.
func refreshAt(start, until time.Time) int64 {
	life := float64(until.Sub(start))
	return start.Add(time.Duration(life * (0.72 + 0.16*rand.Float64()))).UnixNano()
}
