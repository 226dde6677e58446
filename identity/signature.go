package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"math/big"

	"github.com/go-jose/go-jose/v4"
)

// verifySignature reports, by its error, whether a key of the issuer that has the token's kid and suits its alg signed it, and returns the
// generation of the keys. It reads nothing of the token a second time, so that no two readings can differ. A bad signature fetches
// nothing: only an unknown kid may.
func (i *issuer) verifySignature(ctx context.Context, t *rawToken) (uint64, error) {
	set, err := i.keys.get(ctx, func(k *keys) bool { return t.kid == "" || k.has(t.kid) })
	if err != nil {
		return 0, err
	}
	if t.kid == "" && len(set.all) > 1 {
		return 0, invalid("key") // trying them all would unbind the token from its key
	}
	reason := "algorithm"
	for n := range set.all {
		key := &set.all[n]
		if t.kid != "" && key.KeyID != t.kid || !suits(key, t.alg) {
			continue
		}
		if signedBy(key.Key, t.alg, t.signed, t.signature) {
			return set.generation, nil
		}
		reason = "signature"
	}
	return 0, invalid(reason)
}

// has reports whether a key has this kid. Several keys may share one (RFC 7517, section 4.5).
func (k *keys) has(kid string) bool {
	for n := range k.all {
		if k.all[n].KeyID == kid {
			return true
		}
	}
	return false
}

// suits reports whether a key may be used with an algorithm (RFC 8725, section 3.1): its own alg where it has one, and its type.
func suits(key *jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return alg[:2] == "RS" || alg[:2] == "PS"
	case *ecdsa.PublicKey:
		return public.Curve == curveOf(alg)
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// curveOf returns the curve of an ES algorithm (RFC 7518, section 3.4), nil for another.
func curveOf(alg string) elliptic.Curve {
	switch alg {
	case "ES256":
		return elliptic.P256()
	case "ES384":
		return elliptic.P384()
	case "ES512":
		return elliptic.P521()
	}
	return nil
}

// signedBy checks a signature by RFC 7518, section 3, and RFC 8037, with a key that suits the algorithm.
func signedBy(key any, alg, signed string, signature []byte) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		hash, sum := digest(alg, signed)
		if alg[:2] == "PS" { // section 3.5: the salt is as long as the hash
			return rsa.VerifyPSS(key, hash, sum, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	case *ecdsa.PublicKey:
		half := (key.Curve.Params().BitSize + 7) / 8
		if len(signature) != 2*half { // section 3.4: both numbers at their full length
			return false
		}
		_, sum := digest(alg, signed)
		return ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
	case ed25519.PublicKey:
		return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(signed), signature)
	}
	return false
}

// digest hashes by the number in an algorithm's name.
func digest(alg, signed string) (crypto.Hash, []byte) {
	switch alg[2:] {
	case "384":
		sum := sha512.Sum384([]byte(signed))
		return crypto.SHA384, sum[:]
	case "512":
		sum := sha512.Sum512([]byte(signed))
		return crypto.SHA512, sum[:]
	}
	sum := sha256.Sum256([]byte(signed))
	return crypto.SHA256, sum[:]
}
