package certs

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// leaf is a Service's certificate.
type leaf struct {
	secret, service string
	own             bool // the webhook's
	forwarded       bool // people reach it by kubectl port-forward, at localhost
}

func (k *Keeper) leaves() []leaf {
	return []leaf{
		{k.Release + "-injector-tls", k.Service, true, false},
		{k.Release + "-killswitch-tls", k.Release + "-killswitch", false, true},
		{k.Release + "-gateway-tls", k.Release + "-gateway", false, false},
	}
}

// names are those by which a Service and, of a StatefulSet, its pods are reached; the Service's own comes first.
func (k *Keeper) names(l leaf) []string {
	base := l.service + "." + k.Namespace
	names := []string{l.service, base, base + ".svc", base + ".svc.cluster.local", "*." + base + ".svc", "*." + base + ".svc.cluster.local"}
	if l.forwarded {
		names = append(names, "localhost")
	}
	return names
}

// keepLeaf reads a leaf, and makes it anew when there is none or when it does not fit any more.
func (k *Keeper) keepLeaf(ctx context.Context, ca *authority, l leaf, bundle []byte) (*pair, error) {
	var kept *pair
	err := k.secrets.settle(ctx, l.secret, func(current *corev1.Secret) (_ *corev1.Secret, change string, err error) {
		renew := current == nil
		change = "the CA bundle was replaced"
		if !renew {
			if kept, err = parsePair(current.Data[keyCert], current.Data[keyKey]); err != nil {
				return nil, "", k.secrets.corrupt(l.secret, err)
			}
			renew = !ca.fits(kept, k.names(l), k.Now())
			if !renew && bytes.Equal(current.Data[keyBundle], bundle) {
				return nil, "", nil
			}
		}
		if renew {
			if kept, err = newLeaf(&ca.active, k.names(l), k.Now()); err != nil {
				return nil, "", err
			}
			change = "a leaf was made, good until " + kept.cert.NotAfter.Format(time.RFC3339)
		}
		cert, key, err := kept.texts()
		if err != nil {
			return nil, "", err
		}
		return fresh(current, corev1.SecretTypeTLS, map[string][]byte{keyCert: cert, keyKey: key, keyBundle: bundle}), change, nil
	})
	return kept, err
}

// Keys of the signing key's Secret.
const (
	keySigning = "signing-key.pem"
	keyPublic  = "public-key"
)

// signingKey makes the kill switch's signing key when there is none, and returns its public key. It is never made anew: sidecars trust its public key, and a person
// must tell them of another (killswitch serve --trusted-key).
func (k *Keeper) signingKey(ctx context.Context) (public string, err error) {
	name := k.Release + "-killswitch-key"
	err = k.secrets.settle(ctx, name, func(current *corev1.Secret) (*corev1.Secret, string, error) {
		if current != nil {
			signer, err := ledger.ParseSigner(current.Data[keySigning])
			if err == nil && string(current.Data[keyPublic]) != signer.PublicKey() {
				err = errors.New(keyPublic + " is not that of " + keySigning)
			}
			if err != nil {
				return nil, "", k.secrets.corrupt(name, err)
			}
			public = signer.PublicKey()
			return nil, "", nil
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, "", err
		}
		signer := ledger.NewSigner(key)
		public = signer.PublicKey()
		return fresh(nil, corev1.SecretTypeOpaque, map[string][]byte{keySigning: signer.PEM(), keyPublic: []byte(public)}), "a signing key was made, " + signer.KeyID(), nil
	})
	return public, err
}
