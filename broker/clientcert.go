package broker

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"sync/atomic"
)

// ClientCertificate is as whom we come to a server.
type ClientCertificate struct {
	ID  string           // SHA-256 of the chain, hex: connections of one ID may be shared
	TLS *tls.Certificate // not to be changed

	x5t string // thumbprint of the leaf (RFC 8705, section 3.1)
}

// clientCert is a client certificate in two files, both read again when they change. It is parsed once for each content.
type clientCert struct {
	cert, key *watched[[]byte]
	last      atomic.Pointer[parsedCert]
}

type parsedCert struct {
	cert, key []byte
	parsed    *ClientCertificate
}

func newClientCert(certFile, keyFile string) *clientCert {
	whole := func(b []byte) ([]byte, error) { return b, nil }
	return &clientCert{cert: &watched[[]byte]{path: certFile, parse: whole}, key: &watched[[]byte]{path: keyFile, parse: whole}}
}

// get returns the pair that the files hold now. Files that do not belong together are an error: one of them is being
// replaced. The error quotes nothing of them.
func (c *clientCert) get() (*ClientCertificate, error) {
	cert, err := c.cert.get()
	if err != nil {
		return nil, err
	}
	key, err := c.key.get()
	if err != nil {
		return nil, err
	}
	if last := c.last.Load(); last != nil && bytes.Equal(last.cert, cert) && bytes.Equal(last.key, key) {
		return last.parsed, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("holds no certificate that fits the key")
	}
	leaf := sha256.Sum256(pair.Certificate[0])
	parsed := &ClientCertificate{ID: hash(string(bytes.Join(pair.Certificate, nil))), TLS: &pair, x5t: b64(leaf[:])}
	c.last.Store(&parsedCert{cert, key, parsed})
	return parsed, nil
}
