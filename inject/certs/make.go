package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Lifetimes. What is made is made anew after two thirds of its own.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	// backdate is how far certificates begin in the past, for clocks that are behind.
	backdate = 5 * time.Minute
)

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// made is when the pair was made.
func (p *pair) made() time.Time { return p.cert.NotBefore.Add(backdate) }

// due reports whether two thirds of the life are over.
func (p *pair) due(now time.Time) bool {
	life := p.cert.NotAfter.Sub(p.cert.NotBefore)
	return !now.Before(p.cert.NotBefore.Add(life / 3 * 2))
}

// newCA makes a CA. Its name holds the day, so that people can tell an old one from a new one.
func newCA(release string, now time.Time) (*pair, error) {
	return issue(&x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Toolgate"}, CommonName: fmt.Sprintf("%.40s CA %s", release, now.UTC().Format(time.DateOnly))},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, nil)
}

// newLeaf makes a server's certificate for these names, the first of which is a label of at most 63 characters (RFC 1035, section 2.3.1), as a
// common name must be (RFC 5280, appendix A).
func newLeaf(ca *pair, names []string, now time.Time) (*pair, error) {
	notAfter := now.Add(leafLife)
	if notAfter.After(ca.cert.NotAfter) {
		notAfter = ca.cert.NotAfter
	}
	return issue(&x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Toolgate"}, CommonName: names[0]},
		NotBefore: now.Add(-backdate), NotAfter: notAfter, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca)
}

// issue signs a certificate for a new key; without a CA, by that key itself.
func issue(template *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	if ca == nil {
		ca = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &pair{cert, key}, err
}

// texts returns certificate and key as PEM, the key as PKCS #8 (RFC 5958).
func (p *pair) texts() (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, nil, err
	}
	return certPEM(p.cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func certPEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// parsePair reads what texts wrote. Its errors quote nothing.
func parsePair(cert, key []byte) (*pair, error) {
	certs, err := parseCerts(cert)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errors.New("the key is no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is no PKCS #8")
	}
	k, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is no ECDSA key")
	}
	if !k.PublicKey.Equal(certs[0].PublicKey) {
		return nil, errors.New("the key is not the certificate's")
	}
	return &pair{certs[0], k}, nil
}

// parseCerts reads one or more certificates and nothing else.
func parseCerts(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("found something that is no PEM certificate")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("found a certificate that cannot be read")
		}
		out, text = append(out, c), rest
	}
	if len(out) == 0 {
		return nil, errors.New("found no certificate")
	}
	return out, nil
}
