package roots

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

// Password is that of every trust store. There is nothing to keep secret in one, and Java's own have this one; Java loads a store
// without a password as an empty one before version 18.
const Password = "changeit"

// TrustStore encodes certificates as a PKCS #12 trust store (RFC 7292) that Java reads from 8u301 and 11.0.12 on. Errors: a
// certificate that cannot be read.
func TrustStore(certs [][]byte) ([]byte, error) {
	entries := make([]pkcs12.TrustStoreEntry, 0, len(certs))
	for i, der := range certs {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read", i+1)
		}
		// Java takes two entries of one name for one, and several authorities have roots of one name.
		sum := sha256.Sum256(der)
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: c, FriendlyName: fmt.Sprintf("%s [%x]", c.Subject.CommonName, sum[:4])})
	}
	return pkcs12.Modern2023.EncodeTrustStoreEntries(entries, Password)
}

// WriteTrustStore writes certificates as TrustStore encodes them, by the rules of WriteFile. A store with the same certificates stays as
// it is, though it is encoded differently each time.
func WriteTrustStore(name string, certs [][]byte) error {
	if text, err := os.ReadFile(filepath.Clean(name)); err == nil {
		old, err := pkcs12.DecodeTrustStore(text, Password)
		if err == nil && slices.EqualFunc(old, certs, func(c *x509.Certificate, der []byte) bool { return bytes.Equal(c.Raw, der) }) {
			return nil
		}
	}
	store, err := TrustStore(certs)
	if err != nil {
		return err
	}
	return WriteFile(name, store)
}
