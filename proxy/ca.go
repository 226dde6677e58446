package proxy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// CA signs the leaves that interception shows to the tool. Its key stays in this process's memory, and in the file of KeepCA.
type CA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

const caName = "Toolgate sidecar CA"

// NewCA makes a CA with a P-256 key, valid for a year; a sidecar lives shorter.
func NewCA() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: caName, Organization: []string{"Toolgate"}},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &CA{cert, key}, nil
}

// LoadCA reads a CA from PEM files. Errors: unreadable, not a CA, out of its validity, key of another certificate.
func LoadCA(certFile, keyFile string) (*CA, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("CA %s: %w", certFile, err)
	}
	ca, err := newSigner(&pair)
	switch {
	case err != nil:
		return nil, fmt.Errorf("CA %s: %w", certFile, err)
	case time.Now().After(ca.cert.NotAfter):
		return nil, fmt.Errorf("CA %s: it expired at %s", certFile, ca.cert.NotAfter.Format(time.RFC3339))
	}
	return ca, nil
}

// newSigner takes a pair whose halves match.
func newSigner(pair *tls.Certificate) (*CA, error) {
	signer, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, errors.New("its key cannot sign")
	case !pair.Leaf.IsCA || !pair.Leaf.BasicConstraintsValid:
		return nil, errors.New("it is no CA certificate (basic constraints)")
	}
	return &CA{pair.Leaf, signer}, nil
}

// PEM returns the certificate for clients to trust.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Certificate returns it in DER.
func (ca *CA) Certificate() []byte { return ca.cert.Raw }

const (
	leafLife   = 24 * time.Hour
	leafMargin = time.Hour // a leaf with less left is signed anew
)

// Leaf signs a certificate for one canonical host, with a key of its own, valid for a day.
func (ca *CA) Leaf(host string) (*tls.Certificate, error) { return ca.leaf(host, time.Now()) }

func (ca *CA) leaf(host string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     earlier(now.Add(leafLife), ca.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	if len(host) <= 64 { // RFC 5280, appendix A.1: ub-common-name
		template.Subject.CommonName = host
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key, Leaf: parsed}, nil
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
