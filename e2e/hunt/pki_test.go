package hunt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// pki is the CA of the upstreams.
type pki struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	c := &pki{key: newECKey(t)}
	c.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "upstream CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c.cert, c.cert, &c.key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	c.cert.Raw = der
	return c
}

func (c *pki) leaf(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key := newECKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: c.cert.NotBefore, NotAfter: c.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.cert, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// newKey returns a private key in PEM, the secret numbers of which are canaries.
func (p *planted) newKey(t *testing.T, where, kind string) (text string, key any) {
	t.Helper()
	var err error
	switch kind {
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key = newECKey(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.addKey(t, "private key", where, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der), key
}

// addKey plants what of a key is secret; the rest of its encoding is in certificates as well.
func (p *planted) addKey(t *testing.T, input, where string, key any) {
	t.Helper()
	switch k := key.(type) {
	case *rsa.PrivateKey:
		p.add(input, where, string(k.D.Bytes()))
		p.add(input, where+", decimal", k.D.String())
		p.add(input, where+", prime", string(k.Primes[0].Bytes()))
	case *ecdsa.PrivateKey:
		d, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		p.add(input, where, string(d))
		p.add(input, where+", decimal", new(big.Int).SetBytes(d).String())
	case ed25519.PrivateKey:
		p.add(input, where, string(k.Seed()))
	}
}
