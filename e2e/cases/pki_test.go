//go:build linux

package cases

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// pki is the upstreams' CA, which the sidecar trusts, and one certificate for all of their names.
type pki struct {
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
	pem   string
	roots *x509.CertPool
	leaf  tls.Certificate
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "upstream CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	p := &pki{key: newKey(t), roots: x509.NewCertPool()}
	der := sign(t, template, template, p.key, p.key)
	var err error
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	p.roots.AddCert(p.ca)
	p.leaf = p.issue(t, "api.ok.test", "*.ok.test", "*.wild.test", "evil.test", "wild.test")
	return p
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a server certificate that the CA signed.
func (p *pki) issue(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	return issue(t, p.ca, p.key, names)
}

// selfSigned returns a server certificate that nobody vouches for.
func selfSigned(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	return issue(t, nil, nil, names)
}

func issue(t *testing.T, parent *x509.Certificate, by *ecdsa.PrivateKey, names []string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if parent == nil {
		parent, by = leaf, key
	}
	return tls.Certificate{Certificate: [][]byte{sign(t, leaf, parent, key, by)}, PrivateKey: key}
}

func sign(t *testing.T, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
