// Package roots gathers the certificate authorities that a tool is to trust, the public ones among them, and writes them where
// runtimes look: a PEM file and a trust store for Java.
//
// Limits: it handles certificates alone, never a key, and verifies nothing. Roots that Mozilla's program trusts for older certificates
// only are among the public ones, since no file can say so; the sidecar itself does hold to it.
//
// Package config and the commands may import it; it imports nothing of ours.
package roots

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// BuiltIn is the source of the public roots where the system has none: those of Mozilla's program, as Go's own module has them.
const BuiltIn = "built in"

// systemFiles are where distributions keep the public roots in one file; crypto/x509 (root_linux.go) looks there as well.
var systemFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/tls/cacert.pem",                           // OpenELEC
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7 and later
	"/etc/ssl/cert.pem",                                 // Alpine
}

// Public returns the certificates of the public authorities, in DER, and where they are from: a file of the system, which is that of
// SSL_CERT_FILE where this is set, or BuiltIn. A folder of single files is not read.
func Public() (certs [][]byte, source string) {
	files := systemFiles
	if f := os.Getenv("SSL_CERT_FILE"); f != "" {
		files = []string{f}
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Clean(f))
		if err != nil {
			continue
		}
		if certs := certificates(text); len(certs) > 0 {
			return certs, f
		}
	}
	for r := range bundle.Roots() {
		certs = append(certs, r.Certificate)
	}
	return certs, BuiltIn
}

// certificates returns what a system's file has of certificates that can be read.
func certificates(text []byte) [][]byte {
	var out [][]byte
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err == nil {
			out = append(out, b.Bytes)
		}
	}
	return out
}

// Parse returns the certificates of a PEM text, in DER: at least one, and nothing but certificates. Text between the blocks is
// passed over. Errors name the block that is wrong by its number and quote nothing of it.
func Parse(text []byte) ([][]byte, error) {
	var out [][]byte
	b, rest := pem.Decode(text)
	for ; b != nil; b, rest = pem.Decode(rest) {
		n := len(out) + 1
		if b.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is no certificate", n)
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read", n)
		}
		out = append(out, b.Bytes)
	}
	switch {
	case bytes.Contains(rest, []byte("-----BEGIN")):
		return nil, fmt.Errorf("PEM block %d is broken", len(out)+1)
	case len(out) == 0:
		return nil, errors.New("there is no certificate")
	}
	return out, nil
}

// Join returns the certificates of all lists, each once, in their order.
func Join(lists ...[][]byte) [][]byte {
	var out [][]byte
	seen := map[string]bool{}
	for _, list := range lists {
		for _, c := range list {
			if !seen[string(c)] {
				seen[string(c)] = true
				out = append(out, c)
			}
		}
	}
	return out
}

// PEM encodes certificates one after the other.
func PEM(certs [][]byte) []byte {
	var b bytes.Buffer
	for _, c := range certs {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c}) // a Buffer takes everything
	}
	return b.Bytes()
}
