package broker

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// entry is a credential or a failure, good while now is before until. The expiry is in the value because tokens of one
// cache end at different times.
type entry struct {
	cred  *Credential
	err   *Error
	until time.Time
}

// cache keeps failures apart from credentials, so that a caller who fails often cannot push out what others use.
type cache struct {
	good, bad *lru.Cache[Key, entry]
}

// newCache holds at most size credentials and as many failures. size is positive, the only condition of lru.New.
func newCache(size int) *cache {
	good, err := lru.New[Key, entry](size)
	if err != nil {
		panic("broker: cache size: " + err.Error())
	}
	bad, err := lru.New[Key, entry](size)
	if err != nil {
		panic("broker: cache size: " + err.Error())
	}
	return &cache{good, bad}
}

func (c *cache) get(k Key, now time.Time) (entry, bool) {
	if e, ok := c.good.Get(k); ok && now.Before(e.until) && e.cred.alive(now) {
		return e, true
	}
	if c.bad.Len() == 0 {
		return entry{}, false
	}
	if e, ok := c.bad.Get(k); ok && now.Before(e.until) {
		return e, true
	}
	return entry{}, false
}

// put stores e and reports whether another credential was pushed out.
func (c *cache) put(k Key, e entry) bool {
	if e.err != nil {
		c.bad.Add(k, e)
		return false
	}
	c.bad.Remove(k)
	return c.good.Add(k, e)
}

// drop removes what matches and returns the credentials among it.
func (c *cache) drop(match func(Key) bool) []*Credential {
	var dropped []*Credential
	for _, k := range c.good.Keys() {
		if !match(k) {
			continue
		}
		if e, ok := c.good.Peek(k); ok && c.good.Remove(k) {
			dropped = append(dropped, e.cred)
		}
	}
	for _, k := range c.bad.Keys() {
		if match(k) {
			c.bad.Remove(k)
		}
	}
	return dropped
}

// forget removes the entry of k if it still holds the value of cred.
func (c *cache) forget(k Key, cred *Credential) bool {
	e, ok := c.good.Peek(k)
	return ok && e.cred.value.Equal(cred.value) && c.good.Remove(k)
}

const maxSkew = 30 * time.Second

// cacheUntil returns until when a credential asked for at start may be given out again: the earliest of its own end, the
// subject token's and the binding's cap, less a skew for clocks and for the request's own way. The zero time means never
// again, which is what an unknown end gives.
func cacheUntil(start, expires, subject time.Time, maxTTL time.Duration) time.Time {
	if expires.IsZero() || subject.IsZero() {
		return time.Time{}
	}
	end := start.Add(maxTTL)
	if expires.Before(end) {
		end = expires
	}
	if subject.Before(end) {
		end = subject
	}
	life := end.Sub(start)
	if life <= 0 {
		return time.Time{}
	}
	return end.Add(-min(maxSkew, life/10))
}
