package certs

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secrets. What others read of the CA is ca.crt alone.
const (
	keyCert     = corev1.TLSCertKey       // tls.crt
	keyKey      = corev1.TLSPrivateKeyKey // tls.key
	keyBundle   = "ca.crt"                // every CA that is to be trusted
	keyNextCert = "next.crt"              // the CA that will sign after the overlap
	keyNextKey  = "next.key"
)

// rotateKey is the annotation by which a person asks for a new CA before its time. Its value means nothing.
const rotateKey = "toolgate/rotate-ca"

// authority is the release's CA through its changes. A new CA is trusted for the length of the overlap before it signs, and an
// old one for as long after the new one has begun to, so that at no moment anybody sees a leaf of a CA that they do not know yet.
type authority struct {
	active pair
	next   *pair // waiting to sign; nil most of the time
	bundle []*x509.Certificate
}

func newAuthority(release string, now time.Time) (*authority, error) {
	ca, err := newCA(release, now)
	if err != nil {
		return nil, err
	}
	return &authority{active: *ca, bundle: []*x509.Certificate{ca.cert}}, nil
}

// parseAuthority reads the CA's Secret.
func parseAuthority(s *corev1.Secret) (*authority, error) {
	active, err := parsePair(s.Data[keyCert], s.Data[keyKey])
	if err != nil {
		return nil, err
	}
	if !active.cert.IsCA {
		return nil, errors.New("the certificate is none of a CA")
	}
	a := &authority{active: *active, bundle: []*x509.Certificate{active.cert}}
	if text, ok := s.Data[keyBundle]; ok {
		if a.bundle, err = parseCerts(text); err != nil {
			return nil, err
		}
	}
	if text, ok := s.Data[keyNextCert]; ok {
		if a.next, err = parsePair(text, s.Data[keyNextKey]); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(a.bundle, a.active.cert.Equal) {
		return nil, errors.New("ca.crt lacks the CA itself")
	}
	return a, nil
}

// step takes the next step of a change of CA that is due, and says which, or "". settled says that no leaf of an older CA is in use
// any more.
func (a *authority) step(release string, now time.Time, overlap time.Duration, asked, settled bool) (string, error) {
	switch {
	case a.next != nil && !now.Before(a.next.made().Add(overlap)):
		a.active, a.next = *a.next, nil
		return "the new CA signs from now on", nil
	case a.next == nil && (asked || a.active.due(now)):
		next, err := newCA(release, now)
		if err != nil {
			return "", err
		}
		a.next, a.bundle = next, append(a.bundle, next.cert)
		return "a new CA is trusted beside the old one", nil
	case a.next == nil && len(a.bundle) > 1 && settled && !now.Before(a.active.made().Add(2*overlap)):
		a.bundle = []*x509.Certificate{a.active.cert}
		return "the old CA is trusted no more", nil
	}
	return "", nil
}

// data returns the Secret's content.
func (a *authority) data() (map[string][]byte, error) {
	cert, key, err := a.active.texts()
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{keyCert: cert, keyKey: key, keyBundle: certPEM(a.bundle...)}
	if a.next != nil {
		if out[keyNextCert], out[keyNextKey], err = a.next.texts(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fits reports whether a leaf is as it should be: of the CA that signs, for these names, and not near its end.
func (a *authority) fits(leaf *pair, names []string, now time.Time) bool {
	return !leaf.due(now) && slices.Equal(leaf.cert.DNSNames, names) && leaf.cert.CheckSignatureFrom(a.active.cert) == nil
}
