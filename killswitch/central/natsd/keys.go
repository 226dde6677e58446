package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// keys are the seeds of the server's operator, of both accounts, and of what issues users in each. Each has a file below
// the folder, readable by its owner alone.
type keys struct {
	dir   string
	pairs map[string]nkeys.KeyPair
}

var keyKinds = map[string]nkeys.PrefixByte{
	"operator":        nkeys.PrefixByteOperator,
	"system-account":  nkeys.PrefixByteAccount,
	"control-account": nkeys.PrefixByteAccount,
	"sidecar-account": nkeys.PrefixByteAccount,
	"control-issuer":  nkeys.PrefixByteAccount,
	"sidecar-issuer":  nkeys.PrefixByteAccount,
}

// loadKeys reads the seeds, and makes those that are missing when make is set.
func loadKeys(dir string, create bool) (*keys, error) {
	k := &keys{dir: dir, pairs: map[string]nkeys.KeyPair{}}
	for name, kind := range keyKinds {
		path := filepath.Join(dir, name+".nk")
		seed, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && create {
			seed, err = newSeed(path, kind)
		}
		if err != nil {
			return nil, fmt.Errorf("NATS keys: %w", err)
		}
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
		if err != nil {
			return nil, fmt.Errorf("NATS keys: %s holds no seed", path)
		}
		k.pairs[name] = pair
	}
	return k, nil
}

func newSeed(path string, kind nkeys.PrefixByte) ([]byte, error) {
	pair, err := nkeys.CreatePair(kind)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return seed, WriteSecret(path, append(seed, '\n'))
}

// WriteSecret writes a new file that its owner alone can read, whole or not at all. It replaces none.
func WriteSecret(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // unlike a rename it fails where the path exists
}

func (k *keys) public(name string) string {
	p, err := k.pairs[name].PublicKey()
	if err != nil {
		panic(err) // a key that was read from a seed has one
	}
	return p
}

var userName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// credentials issues a user of one side, and returns its credentials file.
func (k *keys) credentials(side, name string) ([]byte, error) {
	if !userName.MatchString(name) {
		return nil, fmt.Errorf("the name %.80q is not 1 to 64 letters, digits, \"-\" and \"_\"", name)
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	token, err := k.user(side, name, public, time.Time{})
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(token, seed)
}

// user signs a user of one side, which may do what its side may and speak under its name. The zero time: it does not expire.
func (k *keys) user(side, name, public string, expires time.Time) (string, error) {
	u := jwt.NewUserClaims(public)
	u.Name, u.IssuerAccount = name, k.public(side+"-account")
	if !expires.IsZero() {
		u.Expires = expires.Unix()
	}
	u.SetScoped(true)
	return u.Encode(k.pairs[side+"-issuer"])
}

// Credentials issues a sidecar's user with the keys below dir, which a server with that dir accepts at once.
func Credentials(dir, name string) ([]byte, error) {
	k, err := loadKeys(filepath.Join(dir, "keys"), false)
	if err != nil {
		return nil, err
	}
	return k.credentials("sidecar", name)
}
