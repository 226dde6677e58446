package identity

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	maxCached    = time.Minute // also how long a token may outlive a fault in what made it good
	cacheEntries = 4096
)

// cached is a verified token. It is good as long as the key set that verified it is.
type cached struct {
	caller     *Caller
	keys       *keySet
	generation uint64
	until      time.Time
}

// cache holds verified tokens by their SHA-256, so that it holds no token.
type cache struct {
	lru *lru.Cache[[sha256.Size]byte, *cached]
}

func newCache() *cache {
	c, err := lru.New[[sha256.Size]byte, *cached](cacheEntries)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &cache{lru: c}
}

// cacheKey hashes a token. Most tokens fit the array, which stays on the stack.
func cacheKey(token string) [sha256.Size]byte {
	var buf [2048]byte
	return sha256.Sum256(append(buf[:0], token...))
}

func (c *cache) get(key [sha256.Size]byte, now time.Time) *Caller {
	e, ok := c.lru.Get(key)
	if !ok {
		return nil
	}
	if !now.Before(e.until) || !e.keys.holds(e.generation, now) {
		c.lru.Remove(key)
		return nil
	}
	return e.caller
}

func (c *cache) put(key [sha256.Size]byte, e *cached) { c.lru.Add(key, e) }
