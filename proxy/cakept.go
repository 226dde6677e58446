package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// keptName is the one file of a kept CA: certificate and key together, so that a crash cannot leave one of each of two.
const keptName = "ca.pem"

// KeepCA returns the CA that an earlier process kept in the folder dir, or makes one and keeps it there, so that tools that have
// read its certificate trust the sidecar after a restart as well. dir is made if it is missing; the file in it is for its owner
// alone. unused says why a CA that was kept is not used; nil if there was none. err is of the folder, or of making a CA.
func KeepCA(dir string, now time.Time) (ca *CA, unused, err error) {
	name := filepath.Join(dir, keptName)
	if ca, err = keptCA(name, now); err == nil {
		return ca, nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		unused = err
	}
	if ca, err = NewCA(); err != nil {
		return nil, unused, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unused, err
	}
	return ca, unused, ca.keep(name)
}

// keptCA loads a CA that keep has written. What others may read is not used: its key may be known. The errors quote nothing.
func keptCA(name string, now time.Time) (*CA, error) {
	st, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case st.Mode().Perm()&0o007 != 0:
		return nil, errors.New("others than its owner and group may use it")
	}
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, errors.New("it is not one certificate and the key of it")
	}
	ca, err := newSigner(&pair)
	if err != nil {
		return nil, err
	}
	return ca, ca.usable(now)
}

// usable refuses a CA that this package would not have made, and one that another should soon follow: a process may run for long
// with what it has loaded.
func (ca *CA) usable(now time.Time) error {
	c := ca.cert
	half := c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 2)
	switch {
	case c.Subject.CommonName != caName || !c.MaxPathLenZero || c.CheckSignatureFrom(c) != nil:
		return errors.New("it is not a sidecar's own CA")
	case now.Before(c.NotBefore):
		return errors.New("it is not valid yet")
	case now.After(half):
		return fmt.Errorf("half of its life is over since %s", half.UTC().Format(time.RFC3339))
	}
	return nil
}

// keep writes certificate and key, whole or not at all.
func (ca *CA) keep(name string) error {
	key, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.Write(ca.PEM())
	if err := pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: key}); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".toolgate-*") // 0600
	if err != nil {
		return err
	}
	_, werr := tmp.Write(text.Bytes())
	if err = errors.Join(werr, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
