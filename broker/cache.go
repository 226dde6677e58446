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
	until   time.Time
	refresh atomic.Int64 // when the credential should be asked for anew, in ns; 0: never
	dropped atomic.Bool  // not to be sent any more, whoever still holds the credential
}

// due reports whether a credential in use should be asked for anew, and puts off the next question.
func (e *entry) due(now time.Time) bool {
	at := e.refresh.Load()
	return at != 0 && now.UnixNano() >= at && e.refresh.CompareAndSwap(at, now.Add(refreshPause).UnixNano())
}

// cache keeps failures apart from credentials, so that a caller who fails often cannot push out what others use. It finds by a hash of the
// key and believes the key itself only.
type cache struct {
	seed      maphash.Seed
	good, bad *lru.Cache[uint64, *entry]
	refused   *lru.Cache[uint64, time.Time] // when an upstream refused what was good
}

// newCache holds at most size credentials and as many failures. size is positive.
func newCache(size int) *cache {
	return &cache{maphash.MakeSeed(), newLRU[*entry](size), newLRU[*entry](size), newLRU[time.Time](size)}
}

func newLRU[V any](size int) *lru.Cache[uint64, V] {
	c, err := lru.New[uint64, V](size)
	if err != nil { // of a size that is not positive only
		panic("broker: cache size: " + err.Error())
	}
	return c
}

func (c *cache) get(k Key, now time.Time) *entry {
	at := maphash.Comparable(c.seed, k)
	if e, ok := c.good.Get(at); ok && now.Before(e.until) && e.key() == k && e.cred.alive(now) {
		return e
	}
	if c.bad.Len() == 0 {
		return nil
	}
	if e, ok := c.bad.Get(at); ok && now.Before(e.until) && e.key() == k {
		return e
	}
	return nil
}

// put stores e and reports whether another credential was pushed out.
func (c *cache) put(k Key, e *entry) bool {
	at := maphash.Comparable(c.seed, k)
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
			e.dropped.Store(true)
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

// forget removes e if it is still there and no other of its key has been removed of late. It reports whether e was removed, and whether
// there is nothing of e left to be given out again.
func (c *cache) forget(e *entry, now time.Time) (removed, gone bool) {
	at := maphash.Comparable(c.seed, e.key())
	if present, ok := c.good.Peek(at); !ok || present != e {
		return false, !e.dropped.Load()
	}
	if last, ok := c.refused.Get(at); ok && now.Sub(last) < refusedPause {
		return false, false
	}
	c.refused.Add(at, now)
	return c.good.Remove(at), true
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

// earlier returns the earlier of two ends; one that is zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
