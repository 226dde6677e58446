package roots

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

func authority(t testing.TB, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, contents []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: contents}))
}

func TestPublic(t *testing.T) {
	own := authority(t, "system")
	file := filepath.Join(t.TempDir(), "certs.pem")
	// What is no certificate, a key above all, is not handed on.
	text := "# ours\n" + block("PRIVATE KEY", []byte("key")) + block("CERTIFICATE", own) + block("CERTIFICATE", []byte("broken"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file)
	certs, source := Public()
	if source != file || len(certs) != 1 || !bytes.Equal(certs[0], own) {
		t.Errorf("%d certificates from %s", len(certs), source)
	}
	for name, contents := range map[string]string{"none": "", "absent": "\x00"} {
		file := filepath.Join(t.TempDir(), name)
		if name == "none" {
			if err := os.WriteFile(file, []byte(contents), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("SSL_CERT_FILE", file)
		certs, source := Public()
		if source != BuiltIn || len(certs) < 50 {
			t.Errorf("%s: %d certificates from %s", name, len(certs), source)
		}
		if parsed, err := Parse(PEM(certs)); err != nil || len(parsed) != len(certs) {
			t.Errorf("%s: what was built in cannot be read: %d, %v", name, len(parsed), err)
		}
	}
}

func TestParse(t *testing.T) {
	a, b := authority(t, "a"), authority(t, "b")
	both := "Company root:\n" + block("CERTIFICATE", a) + "\n# next\n" + block("CERTIFICATE", b)
	certs, err := Parse([]byte(both))
	if err != nil || len(certs) != 2 || !bytes.Equal(certs[1], b) {
		t.Fatalf("%d certificates, %v", len(certs), err)
	}
	for text, want := range map[string]string{
		"":                            "there is no certificate",
		"nothing":                     "there is no certificate",
		string(a):                     "there is no certificate",
		block("CERTIFICATE", a)[:200]: "PEM block 1 is broken",
		both + block("EC PRIVATE KEY", []byte("secret")): "PEM block 3 is no certificate",
		both + block("CERTIFICATE", []byte("secret")):    "certificate 3 cannot be read",
		both + "-----BEGIN CERTIFICATE-----\nsecret\n":   "PEM block 3 is broken",
	} {
		certs, err := Parse([]byte(text))
		if err == nil || err.Error() != want || certs != nil {
			t.Errorf("%.40q: %d certificates, error %v, want %s", text, len(certs), err, want)
		}
	}
}

func TestJoin(t *testing.T) {
	a, b, c := []byte("a"), []byte("b"), []byte("c")
	got := Join([][]byte{a, b}, nil, [][]byte{b, c, a})
	if !slices.EqualFunc(got, [][]byte{a, b, c}, bytes.Equal) {
		t.Errorf("%q", got)
	}
}

func TestTrustStore(t *testing.T) {
	certs := [][]byte{authority(t, "one name"), authority(t, "one name"), authority(t, "another")}
	store, err := TrustStore(certs)
	if err != nil {
		t.Fatal(err)
	}
	back, err := pkcs12.DecodeTrustStore(store, Password)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range back {
		if !bytes.Equal(c.Raw, certs[i]) {
			t.Errorf("certificate %d is another", i)
		}
	}
	if len(back) != len(certs) {
		t.Errorf("%d certificates, want %d", len(back), len(certs))
	}
	if _, err := TrustStore([][]byte{[]byte("broken")}); err == nil {
		t.Error("no error for what is no certificate")
	}
}

// TestWriteFile: whoever has the file, by a mount of it alone or an open descriptor, sees the new contents, longer or shorter.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "ca.pem")
	if err := WriteFile(name, []byte("roots, old")); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	for _, contents := range []string{"roots, and a new one", "roots", "", "others"} {
		if err := WriteFile(name, []byte(contents)); err != nil {
			t.Fatal(err)
		}
		seen := make([]byte, 100)
		n, _ := held.ReadAt(seen, 0)
		now, err := os.ReadFile(name)
		if err != nil || string(now) != contents || string(seen[:n]) != contents {
			t.Errorf("the file holds %q and whoever had it open reads %q, want %q; %v", now, seen[:n], contents, err)
		}
	}
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := WriteFile(filepath.Join(dir, "absent", "ca.pem"), nil); err == nil || !strings.Contains(err.Error(), "there is no folder "+filepath.Join(dir, "absent")) {
		t.Errorf("error %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "taken"), nil); err == nil {
		t.Error("no error over a folder")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".toolgate-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWriteFileReplaces what is not a file that everyone may read: a link leads to somebody else's, and a private one would stay so.
func TestWriteFileReplaces(t *testing.T) {
	dir := t.TempDir()
	other, link, private := filepath.Join(dir, "other"), filepath.Join(dir, "link"), filepath.Join(dir, "private")
	for file, mode := range map[string]os.FileMode{other: 0o644, private: 0o600} {
		if err := os.WriteFile(file, []byte("theirs"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, private} {
		if err := WriteFile(name, []byte("ours")); err != nil {
			t.Fatal(err)
		}
		st, err := os.Lstat(name)
		if text, _ := os.ReadFile(name); err != nil || string(text) != "ours" || st.Mode() != 0o644 {
			t.Errorf("%s: %q, %v, %v", name, text, st.Mode(), err)
		}
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "theirs" {
		t.Errorf("the link was followed: %q, %v", text, err)
	}
}

// TestSameContentsStay: neither kind of file is touched without need.
func TestSameContentsStay(t *testing.T) {
	dir, certs := t.TempDir(), [][]byte{authority(t, "a"), authority(t, "b")}
	bundle, store := filepath.Join(dir, "bundle.pem"), filepath.Join(dir, "trust.p12")
	write := func(certs [][]byte) (at [2]time.Time, text string) {
		for i, err := range []error{WriteFile(bundle, PEM(certs)), WriteTrustStore(store, certs)} {
			st, serr := os.Stat([]string{bundle, store}[i])
			if err != nil || serr != nil {
				t.Fatal(err, serr)
			}
			at[i] = st.ModTime()
		}
		b, err := os.ReadFile(store)
		if err != nil {
			t.Fatal(err)
		}
		return at, string(b)
	}
	write(certs)
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{bundle, store} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	before, text := write(certs)
	if time.Since(before[0]) < time.Minute || time.Since(before[1]) < time.Minute {
		t.Errorf("written again: %v", before)
	}
	after, other := write(certs[:1])
	if after[0].Equal(before[0]) || after[1].Equal(before[1]) || other == text {
		t.Errorf("not written: %v", after)
	}
}
