package proxy

import (
	"crypto/tls"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const maxLeaves = 1024

// leaves mints leaf certificates once per host, however many clients ask at a time.
type leaves struct {
	ca     *CA
	cache  *lru.Cache[string, *tls.Certificate]
	flight singleflight.Group
}

func newLeaves(ca *CA) *leaves {
	cache, err := lru.New[string, *tls.Certificate](maxLeaves)
	if err != nil {
		panic(err) // a constant size that is not positive
	}
	return &leaves{ca: ca, cache: cache}
}

// get returns the leaf of a canonical host that policy has let through.
func (l *leaves) get(host string) (*tls.Certificate, error) {
	now := time.Now()
	if c, ok := l.cache.Get(host); ok && now.Before(c.Leaf.NotAfter.Add(-leafMargin)) {
		return c, nil
	}
	v, err, _ := l.flight.Do(host, func() (any, error) {
		c, err := l.ca.leaf(host, now)
		if err == nil {
			l.cache.Add(host, c)
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	return v.(*tls.Certificate), nil
}
