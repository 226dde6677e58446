package devissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

type signingKey struct {
	kid, alg string
	private  crypto.Signer
}

func newKey(alg string) (*signingKey, error) {
	var private crypto.Signer
	var err error
	switch alg {
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		return nil, fmt.Errorf("devissuer: no key for algorithm %q", alg)
	}
	if err != nil {
		return nil, err
	}
	return &signingKey{kid: newID(), alg: alg, private: private}, nil
}

// key returns the key for an algorithm and makes it at first use.
func (i *Issuer) key(alg string) (*signingKey, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if k := i.keys[alg]; k != nil {
		return k, nil
	}
	k, err := newKey(alg)
	if err != nil {
		return nil, err
	}
	i.keys[alg] = k
	return k, nil
}

// Rotate replaces every key. The old ones leave the key set at once, so tokens signed with them are no longer good.
func (i *Issuer) Rotate() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	fresh := map[string]*signingKey{}
	for alg := range i.keys {
		k, err := newKey(alg)
		if err != nil {
			return err
		}
		fresh[alg] = k
	}
	i.keys = fresh
	return nil
}

// Keys returns the public key set that the issuer publishes now.
func (i *Issuer) Keys() jose.JSONWebKeySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.kid, Algorithm: k.alg, Use: "sig"})
	}
	return set
}

// newID returns 128 random bits for a jti or a kid.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
