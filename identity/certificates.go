package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

const (
	// verifiedFor is how long a chain is not verified again. The roots are fixed, and no lists of revoked certificates are read, so that time
	// alone can undo a success; it is short all the same, so that nothing rests on one verification for long.
	verifiedFor = time.Minute
	// maxVerified bounds what is remembered: one workload, a fleet's sidecar, is one chain.
	maxVerified = 4096
)

// Certificates verifies chains as VerifyCertificate does, against roots that never change, and remembers those that it has found good, since a
// workload shows the same with every tunnel. It remembers no failure. New roots need a new one. Its methods may be called at once.
type Certificates struct {
	roots *x509.CertPool

	mu   sync.Mutex
	good map[[sha256.Size]byte]verified
}

// verified is a chain that was found good.
type verified struct {
	ids         []string
	from, until time.Time // of the look, and when it counts no more
}

// NewCertificates returns one that believes roots; nil believes none.
func NewCertificates(roots *x509.CertPool) *Certificates {
	return &Certificates{roots: roots, good: map[[sha256.Size]byte]verified{}}
}

// Verify is VerifyCertificate. What it returns is shared and not to be changed.
func (c *Certificates) Verify(chain []*x509.Certificate, at time.Time) ([]string, error) {
	key := chainSum(chain)
	c.mu.Lock()
	v, ok := c.good[key]
	c.mu.Unlock()
	if ok && !at.Before(v.from) && !at.After(v.until) { // a clock that was put back undoes it, too
		return v.ids, nil
	}
	ids, by, err := verifyCertificate(chain, c.roots, at)
	if err != nil {
		return nil, err
	}
	v = verified{ids: ids, from: at, until: at.Add(verifiedFor)}
	for _, cert := range by {
		if cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(key, v)
	return ids, nil
}

// keep makes room before it adds one: of what has ended, or else of any.
func (c *Certificates) keep(key [sha256.Size]byte, v verified) {
	if len(c.good) >= maxVerified {
		for k, old := range c.good {
			if v.from.After(old.until) {
				delete(c.good, k)
			}
		}
		for k := range c.good {
			if len(c.good) < maxVerified {
				break
			}
			delete(c.good, k)
		}
	}
	c.good[key] = v
}

// chainSum is of the whole chain: another certificate between may make it another way to a root.
func chainSum(chain []*x509.Certificate) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, cert := range chain {
		_, _ = h.Write(cert.Raw) // DER says its own length
	}
	h.Sum(sum[:0])
	return sum
}
