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
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("holds no NATS user JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Name string `json:"name"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Name == "" {
		return "", errors.New("holds a NATS user JWT without name")
	}
	return claims.Name, nil
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
