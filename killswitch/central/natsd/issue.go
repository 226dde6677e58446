package natsd

import (
	"errors"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nkeys"
)

// Issuer signs users for sidecars that keep their own key. The server with the same folder takes them at once.
type Issuer struct{ keys *keys }

// OpenIssuer reads the keys below dir, which Start has made.
func OpenIssuer(dir string) (*Issuer, error) {
	k, err := loadKeys(filepath.Join(dir, "keys"), false)
	if err != nil {
		return nil, err
	}
	return &Issuer{k}, nil
}

// issuedName is a token of a NATS subject: the name stands in what the user may publish on. A namespace and a pod's name have
// 317 bytes together.
var issuedName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,320}$`)

// Errors of Issue.
var (
	ErrName      = errors.New("the name is not 1 to 320 letters, digits, \"-\" and \"_\"")
	ErrPublicKey = errors.New("the public key is not that of a NATS user: \"U\" and 55 characters of base32")
)

// Issue returns the JWT of a user with a sidecar's permissions, of this name and public key (nkey), that ends at expires. Whoever
// has the key's seed can use it; the seed is not needed here. Errors: ErrName, ErrPublicKey.
func (i *Issuer) Issue(name, public string, expires time.Time) (string, error) {
	switch {
	case !issuedName.MatchString(name):
		return "", ErrName
	case !nkeys.IsValidPublicUserKey(public):
		return "", ErrPublicKey
	}
	return i.keys.user("sidecar", name, public, expires)
}
