package broker

import (
	"crypto/tls"
	"errors"
)

// clientCert is a client certificate in two files, both read again when they change.
type clientCert struct{ cert, key *watched[[]byte] }

func newClientCert(certFile, keyFile string) *clientCert {
	whole := func(b []byte) ([]byte, error) { return b, nil }
	return &clientCert{&watched[[]byte]{path: certFile, parse: whole}, &watched[[]byte]{path: keyFile, parse: whole}}
}

// get returns the pair that the files hold now. Files that do not belong together are an error: one of them is being
// replaced. The error quotes nothing of them.
func (c *clientCert) get() (*tls.Certificate, error) {
	cert, err := c.cert.get()
	if err != nil {
		return nil, err
	}
	key, err := c.key.get()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("holds no certificate that fits the key")
	}
	return &pair, nil
}
