package ledger

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// keyPrefix begins the text of a public key, so that nobody takes it for another kind of base64.
const keyPrefix = "ed25519:"

// Signer signs with one private key.
type Signer struct {
	id  string
	key ed25519.PrivateKey
}

// ParseSigner reads a PKCS #8 PEM file's content (RFC 5958) with an Ed25519 key. Its errors quote nothing of it.
func ParseSigner(pemText []byte) (*Signer, error) {
	block, _ := pem.Decode(pemText)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("signing key: no PEM block PRIVATE KEY")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("signing key: not PKCS #8")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("signing key: a %T, not an Ed25519 key", parsed)
	}
	return NewSigner(key), nil
}

// NewSigner returns a signer for the key.
func NewSigner(key ed25519.PrivateKey) *Signer {
	return &Signer{id: keyID(key.Public().(ed25519.PublicKey)), key: key}
}

// PEM returns the private key as PKCS #8 PEM, for ParseSigner.
func (s *Signer) PEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		panic(err) // an Ed25519 key always marshals
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Derive returns 32 bytes that only who has the key can compute (HKDF, RFC 5869), another 32 for each purpose. They tell
// nothing about the key.
func (s *Signer) Derive(purpose string) []byte {
	b, err := hkdf.Key(sha256.New, s.key.Seed(), nil, "toolgate kill switch "+purpose, 32)
	if err != nil {
		panic(err) // only for a length that SHA-256 cannot give
	}
	return b
}

// KeyID names the key: the first 16 hex digits of the SHA-256 of the public key.
func (s *Signer) KeyID() string { return s.id }

// PublicKey returns the text that sidecars are configured with: "ed25519:" and base64url of the 32 bytes.
func (s *Signer) PublicKey() string {
	return keyPrefix + base64.RawURLEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
}

// Keys are the public keys that are trusted, by key id. More than one is trusted while keys are rotated. The zero value
// trusts none.
type Keys map[string]ed25519.PublicKey

// ParseKeys reads public keys in the form of Signer.PublicKey.
func ParseKeys(texts ...string) (Keys, error) {
	keys := Keys{}
	for _, t := range texts {
		b64, ok := strings.CutPrefix(t, keyPrefix)
		raw, err := base64.RawURLEncoding.Strict().DecodeString(b64)
		if !ok || err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("public key %.64q is not %q and the base64url of %d bytes", t, keyPrefix, ed25519.PublicKeySize)
		}
		keys[keyID(raw)] = raw
	}
	return keys, nil
}

func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}
