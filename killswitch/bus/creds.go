package bus

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// defaultUser stands in subjects where no credentials name one.
const defaultUser = "sidecar"

// userOf returns the name in a NATS credentials file, the `name` claim of its JWT. Nothing is verified: the server does
// that, and lets a name publish under itself only. Its errors quote nothing of the file.
func userOf(path string) (string, error) {
	if path == "" {
		return defaultUser, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token, err := nkeys.ParseDecoratedJWT(b)
	if err != nil {
		return "", errors.New("holds no NATS user JWT")
	}
	c, err := claimsOf(token)
	return c.Name, err
}

// claims are what is read of a NATS user's JWT.
type claims struct {
	Name    string `json:"name"`
	Subject string `json:"sub"` // the public key
	Issued  int64  `json:"iat"` // seconds since 1970
	Expires int64  `json:"exp"` // the same; 0: never
}

// claimsOf verifies nothing. Its errors quote nothing of the token.
func claimsOf(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, errors.New("holds no NATS user JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil || c.Name == "" {
		return claims{}, errors.New("holds a NATS user JWT without name")
	}
	return c, nil
}

// CheckCredentials says what is wrong with a NATS credentials file.
func CheckCredentials(path string) error {
	if _, err := userOf(path); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	key, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil {
		return errors.New("holds no NATS user key")
	}
	key.Wipe()
	return nil
}
