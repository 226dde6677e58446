package devissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // SHA-384 and SHA-512 for crypto.Hash
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Mint returns a JWT signed with ES256. It fills in iss, iat, jti and exp (in five minutes) unless claims has them; a nil
// value leaves the claim out.
func (i *Issuer) Mint(claims map[string]any) (string, error) {
	return i.MintWith(nil, claims, "ES256")
}

// MintWith is Mint with another algorithm and with header values over the usual alg, kid and typ; nil leaves one out. The key of
// an algorithm is made and published at first use. HS256 is keyed with the PEM of a published public key, the well-known
// confusion; any other unknown alg, such as none, gets an empty signature. So it makes bad tokens too.
func (i *Issuer) MintWith(header, claims map[string]any, alg string) (string, error) {
	now := i.now().Unix()
	all := map[string]any{"iss": i.url, "iat": now, "exp": now + 300, "jti": newID()}
	payload, err := json.Marshal(override(all, claims))
	if err != nil {
		return "", err
	}
	k := i.keyOrAny(alg)
	protected, err := json.Marshal(override(map[string]any{"alg": alg, "kid": k.kid, "typ": "JWT"}, header))
	if err != nil {
		return "", err
	}
	return i.Sign(protected, payload, alg)
}

// Sign returns the compact JWS (RFC 7515) of a protected header and a payload that are used verbatim.
func (i *Issuer) Sign(protected, payload []byte, alg string) (string, error) {
	enc := base64.RawURLEncoding
	input := enc.EncodeToString(protected) + "." + enc.EncodeToString(payload)
	sig, err := i.keyOrAny(alg).sign([]byte(input), alg)
	if err != nil {
		return "", err
	}
	return input + "." + enc.EncodeToString(sig), nil
}

// keyOrAny returns the key for alg or, where there is none, the one that a forger would borrow.
func (i *Issuer) keyOrAny(alg string) *signingKey {
	if k, err := i.key(alg); err == nil {
		return k
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if k := i.keys["RS256"]; k != nil {
		return k
	}
	for _, alg := range slices.Sorted(maps.Keys(i.keys)) {
		return i.keys[alg]
	}
	return nil
}

func override(base, over map[string]any) map[string]any {
	for k, v := range over {
		if v == nil {
			delete(base, k)
		} else {
			base[k] = v
		}
	}
	return base
}

func (k *signingKey) sign(input []byte, alg string) ([]byte, error) {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[min(2, len(alg)):]]
	var digest []byte
	if hash != 0 {
		h := hash.New()
		h.Write(input)
		digest = h.Sum(nil)
	}
	switch alg {
	case "ES256", "ES384", "ES512":
		return signECDSA(k.private.(*ecdsa.PrivateKey), digest)
	case "RS256", "RS384", "RS512":
		return k.private.Sign(rand.Reader, digest, hash)
	case "PS256", "PS384", "PS512":
		return k.private.Sign(rand.Reader, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash})
	case "EdDSA":
		return ed25519.Sign(k.private.(ed25519.PrivateKey), input), nil
	case "HS256":
		der, err := x509.MarshalPKIXPublicKey(k.private.Public())
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write(input)
		return mac.Sum(nil), nil
	}
	return nil, nil
}

// signECDSA gives the fixed-length form of RFC 7518, section 3.4.
func signECDSA(key *ecdsa.PrivateKey, digest []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, key, digest)
	if err != nil {
		return nil, err
	}
	size := (key.Curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	r.FillBytes(out[:size])
	s.FillBytes(out[size:])
	return out, nil
}

// Verify is what a resource server does with a token of this issuer: signature by a published key, iss, exp, nbf, aud and
// revocation. An empty audience accepts any. It returns the claims.
func (i *Issuer) Verify(token, audience string) (map[string]any, error) {
	set := i.Keys()
	algs := make([]jose.SignatureAlgorithm, 0, len(set.Keys))
	for _, k := range set.Keys {
		algs = append(algs, jose.SignatureAlgorithm(k.Algorithm))
	}
	jws, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, errors.New("devissuer: not a JWT of this issuer")
	}
	header := jws.Signatures[0].Header
	keys := set.Key(header.KeyID)
	if len(keys) != 1 || keys[0].Algorithm != header.Algorithm {
		return nil, errors.New("devissuer: unknown key")
	}
	payload, err := jws.Verify(keys[0].Key)
	if err != nil {
		return nil, errors.New("devissuer: bad signature")
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, errors.New("devissuer: bad claims")
	}
	return claims, i.checkClaims(claims, audience)
}

func (i *Issuer) checkClaims(claims map[string]any, audience string) error {
	now := i.now()
	exp, ok := claims["exp"].(float64)
	if !ok || !now.Before(time.Unix(int64(exp), 0)) {
		return errors.New("devissuer: token expired")
	}
	if nbf, ok := claims["nbf"].(float64); ok && now.Before(time.Unix(int64(nbf), 0)) {
		return errors.New("devissuer: token not yet valid")
	}
	if claims["iss"] != i.url {
		return errors.New("devissuer: token of another issuer")
	}
	if audience != "" && !slices.Contains(list(claims["aud"]), audience) {
		return fmt.Errorf("devissuer: token is not for %s", audience)
	}
	jti, _ := claims["jti"].(string)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.revoked[jti] {
		return errors.New("devissuer: token revoked")
	}
	return nil
}

// list reads a claim that is a string or an array of strings.
func list(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
