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
	if c := l.held(host); c != nil {
		return c, nil
	}
	v, err, _ := l.flight.Do(host, func() (any, error) { return l.mint(host) })
	if err != nil {
		return nil, err
	}
	return v.(*tls.Certificate), nil
}

// held returns the leaf at hand, nil when it is missing, near its end, or of another CA.
func (l *leaves) held(host string) *tls.Certificate {
	c, ok := l.cache.Get(host)
	if !ok || !time.Now().Before(c.Leaf.NotAfter.Add(-leafMargin)) || !bytes.Equal(c.Certificate[1], l.ca.Load().cert.Raw) {
		return nil
	}
	return c
}

// mint signs a leaf. It looks once more first: another flight may have landed since the caller looked.
func (l *leaves) mint(host string) (*tls.Certificate, error) {
	if c := l.held(host); c != nil {
		return c, nil
	}
	c, err := l.ca.Load().leaf(host, time.Now())
	if err == nil {
		l.cache.Add(host, c)
	}
	return c, err
}
