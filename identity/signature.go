package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"

	"github.com/go-jose/go-jose/v4"
)

// signatureCheck is the oidc.KeySet of one verification.
type signatureCheck struct {
	issuer     *issuer
	token      *rawToken
	generation uint64
	called     bool
	err        error
}

// VerifySignature returns the payload when a key of the issuer that has the token's kid and suits its alg signed it.
// A bad signature fetches nothing: only an unknown kid may.
func (c *signatureCheck) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	payload, err := c.verify(ctx, text)
	c.called, c.err = true, err
	return payload, err
}

func (c *signatureCheck) verify(ctx context.Context, text string) ([]byte, error) {
	kid := c.token.kid
	set, err := c.issuer.keys.get(ctx, func(k *keys) bool { return kid == "" || len(k.named(kid)) > 0 })
	if err != nil {
		return nil, err
	}
	c.generation = set.generation
	candidates := set.named(kid)
	if kid == "" && len(candidates) > 1 {
		return nil, invalid("key") // trying them all would unbind the token from its key
	}
	jws, err := jose.ParseSignedCompact(text, c.issuer.jose)
	if err != nil {
		return nil, invalid("malformed")
	}
	reason := "algorithm"
	for _, key := range candidates {
		if !suits(key, c.token.alg) {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
		reason = "signature"
	}
	return nil, invalid(reason)
}

// named returns the keys with this kid; all keys for an empty one. Several keys may share a kid (RFC 7517, section 4.5).
func (k *keys) named(kid string) []jose.JSONWebKey {
	if kid == "" {
		return k.all
	}
	var out []jose.JSONWebKey
	for _, key := range k.all {
		if key.KeyID == kid {
			out = append(out, key)
		}
	}
	return out
}

// suits reports whether a key may be used with an algorithm (RFC 8725, section 3.1): its own alg where it has one, and its type.
func suits(key jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return alg[:2] == "RS" || alg[:2] == "PS"
	case *ecdsa.PublicKey:
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg]
		return public.Curve == curve
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
