package proxy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func keep(t *testing.T, dir string, now time.Time) (*CA, error) {
	t.Helper()
	ca, unused, err := KeepCA(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, keptName)); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".toolgate-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return ca, unused
}

// TestKeepCA: the CA stays while more than half of its life is left, and signs as before.
func TestKeepCA(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "kept"), time.Now()
	first, unused := keep(t, dir, now)
	if unused != nil {
		t.Errorf("unused: %v", unused)
	}
	again, unused := keep(t, dir, now.AddDate(0, 5, 0))
	if unused != nil || !bytes.Equal(again.Certificate(), first.Certificate()) {
		t.Errorf("another CA: %v", unused)
	}
	leaf, err := again.Leaf("a.example")
	if err != nil || leaf.Leaf.CheckSignatureFrom(first.cert) != nil {
		t.Errorf("a leaf of the kept CA is not the first's: %v", err)
	}
	next, unused := keep(t, dir, now.AddDate(0, 7, 0))
	if unused == nil || !strings.HasPrefix(unused.Error(), "half of its life is over since ") || bytes.Equal(next.Certificate(), first.Certificate()) {
		t.Errorf("an old CA: %v", unused)
	}
}

// foreignCA is a CA with its key that somebody else has made.
func foreignCA(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Company"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// TestKeptCAUnused: what cannot be this sidecar's own CA is replaced, and the reason is told without quoting the file.
func TestKeptCAUnused(t *testing.T) {
	text := func(ca *CA) string {
		name := filepath.Join(t.TempDir(), keptName)
		if err := ca.keep(name); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := one.Leaf("a.example")
	if err != nil {
		t.Fatal(err)
	}
	signed := &CA{leaf.Leaf, leaf.PrivateKey.(crypto.Signer)}
	cert, key := string(one.PEM()), strings.TrimPrefix(text(two), string(two.PEM()))
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		now  time.Time
		want string
	}{
		"empty":           {"", 0o600, time.Now(), "it is not one certificate and the key of it"},
		"torn":            {text(one)[:len(cert)+40], 0o600, time.Now(), "it is not one certificate and the key of it"},
		"key of another":  {cert + key, 0o600, time.Now(), "it is not one certificate and the key of it"},
		"no CA":           {text(signed), 0o600, time.Now(), "it is no CA certificate (basic constraints)"},
		"readable by all": {text(one), 0o644, time.Now(), "others than its owner and group may use it"},
		"a company's CA":  {foreignCA(t), 0o600, time.Now(), "it is not a sidecar's own CA"},
		"of the future":   {text(one), 0o600, time.Now().AddDate(0, 0, -2), "it is not valid yet"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, keptName)
		if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		ca, unused := keep(t, dir, c.now)
		if unused == nil || unused.Error() != c.want || bytes.Equal(ca.Certificate(), one.Certificate()) {
			t.Errorf("%s: unused %v, want %s", name, unused, c.want)
		}
	}
}
