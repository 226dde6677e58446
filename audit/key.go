package audit

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ParseKey reads the private key that signs checkpoints: PKCS #8 as PEM, Ed25519, as `openssl genpkey -algorithm ed25519` writes it.
func ParseKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no PEM block PRIVATE KEY")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not PKCS #8")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T, not an Ed25519 key", parsed)
	}
	return key, nil
}

// ParsePublicKey reads a public key: "ed25519:" and 43 characters of base64url, or PEM as `openssl pkey -pubout` writes it.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	if encoded, ok := strings.CutPrefix(text, "ed25519:"); ok {
		b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
		if err != nil || len(b) != ed25519.PublicKeySize {
			return nil, errors.New(`not "ed25519:" and 43 characters of base64url`)
		}
		return b, nil
	}
	block, _ := pem.Decode([]byte(text))
	switch {
	case block != nil && block.Type == "PRIVATE KEY":
		return nil, errors.New("a private key, which has no place here; its public key is had with: openssl pkey -pubout -in FILE")
	case block == nil || block.Type != "PUBLIC KEY":
		return nil, errors.New("no PEM block PUBLIC KEY")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a public key")
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a %T, not an Ed25519 key", parsed)
	}
	return key, nil
}

// FormatPublicKey is the form of one line that ParsePublicKey reads.
func FormatPublicKey(key ed25519.PublicKey) string {
	return "ed25519:" + base64.RawURLEncoding.EncodeToString(key)
}
