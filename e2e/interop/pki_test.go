package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// pki is the CA of the upstreams and the one certificate that all of them show.
type pki struct {
	leaf  tls.Certificate
	caPEM []byte
}

// newPKI makes a certificate for every name directly below "test" and for what stands for clouds.
func newPKI(t *testing.T) pki {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	}
	caKey, leafKey := key(), key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "upstream CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "upstream"}, DNSNames: append([]string{"*.test"}, cloudHosts...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, // of a collector
		NotBefore:   ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER := must[[]byte](t)(x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey))
	leafDER := must[[]byte](t)(x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), caKey))
	return pki{
		leaf:  tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey},
		caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
	}
}

// roots returns a pool with the certificates of one file and nothing else.
func roots(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(must[[]byte](t)(os.ReadFile(file))) {
		t.Fatalf("%s holds no certificate", file)
	}
	return pool
}
