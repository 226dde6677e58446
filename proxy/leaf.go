package proxy

import (
	"bytes"
	"crypto/tls"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const maxLeaves = 1024

// leaves mints leaf certificates once per host, however many clients ask at a time.
type leaves struct {
	ca     atomic.Pointer[CA]
	cache  *lru.Cache[string, *tls.Certificate]
	flight singleflight.Group
}

func newLeaves(ca *CA) *leaves {
	cache, err := lru.New[string, *tls.Certificate](maxLeaves)
	if err != nil {
		panic(err) // a constant size that is not positive
	}
	l := &leaves{cache: cache}
	l.ca.Store(ca)
	return l
}

// use signs with another CA from now on.
func (l *leaves) use(ca *CA) {
	l.ca.Store(ca)
	l.cache.Purge()
}

// get returns the leaf of a canonical host that policy has let through.
func (l *leaves) get(host string) (*tls.Certificate, error) {
	now := time.Now()
	ca := l.ca.Load()
	if c := l.held(host, ca, now); c != nil {
		return c, nil
	}
	v, err, _ := l.flight.Do(host, func() (any, error) {
		if c := l.held(host, ca, now); c != nil { // minted since it was looked for
			return c, nil
		}
		c, err := ca.leaf(host, now)
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

// held returns the leaf that was minted before, if it is still good, or nil.
func (l *leaves) held(host string, ca *CA, now time.Time) *tls.Certificate {
	c, ok := l.cache.Get(host)
	if !ok || now.After(c.Leaf.NotAfter.Add(-leafMargin)) || !bytes.Equal(c.Certificate[1], ca.cert.Raw) {
		return nil
	}
	return c
}
