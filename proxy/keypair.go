package proxy

import (
	"crypto/tls"
	"os"
	"slices"
	"sync"
	"time"
)

// keyPair is a certificate and its key in two files that somebody rotates. Between the replacing of the one and of the other, or while one
// is gone, the last pair that fitted together goes on serving; its expiry is for whoever verifies it.
type keyPair struct {
	certFile, keyFile string

	mu   sync.Mutex
	seen [2]os.FileInfo // of the files that pair was read from; nil: read again
	pair *tls.Certificate
}

// get returns the pair, the same value as long as the files say the same. It stats the files each time. An error means that there has
// never been a pair.
func (k *keyPair) get() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	cert, err := os.Stat(k.certFile)
	key, keyErr := os.Stat(k.keyFile)
	if err == nil && keyErr == nil && sameFile(k.seen[0], cert) && sameFile(k.seen[1], key) {
		return k.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		if k.pair != nil {
			return k.pair, nil
		}
		return nil, err
	}
	if k.pair == nil || !slices.EqualFunc(k.pair.Certificate, pair.Certificate, slices.Equal[[]byte]) {
		k.pair = &pair
	}
	k.seen = [2]os.FileInfo{settled(cert), settled(key)}
	return k.pair, nil
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// settled returns nil for a file that was changed a moment ago: it may change again within the resolution of its time.
func settled(info os.FileInfo) os.FileInfo {
	if info == nil || time.Since(info.ModTime()) < time.Second {
		return nil
	}
	return info
}
