package config

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// corpus copies testdata to a folder of its own and adds what must not be checked in: keys, certificates and tokens.
func corpus(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	writeKeys(t, filepath.Join(dir, "keys"))
	return dir
}

func writeKeys(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(prefix string, ca bool, until time.Time) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: prefix}, NotBefore: until.Add(-48 * time.Hour),
			NotAfter: until, IsCA: ca, BasicConstraintsValid: true,
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(prefix+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
		write(prefix+"-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	write("killswitch.pub", []byte("ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\ned25519:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n"))
	write("killswitch-broken.pub", []byte("ed25519:short\n"))
	soon := time.Now().Add(24 * time.Hour)
	pair("ca", true, soon)
	pair("other", true, soon)
	pair("leaf", false, soon)
	pair("expired", true, time.Now().Add(-time.Hour))
	write("rsa.pem", rsaKey())
	write("token", []byte("a-token\n"))
	write("secret", []byte("a-secret\n"))
	write("proxy-user", []byte("toolgate:a-password\n"))
	write("empty.pem", nil)
	write("audit.pem", ledger.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).PEM())
}

// rsaKey is made once, since that takes long.
var rsaKey = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})

// load reads a file of the corpus as what its name says that it is.
func load(path string) (defaults Problems, err error) {
	switch base := filepath.Base(path); {
	case strings.HasPrefix(base, "manifest-"):
		_, defaults, err = LoadManifest(path)
	case strings.HasPrefix(base, "revocations-"):
		_, err = LoadRevocations(path)
	case strings.HasPrefix(base, "signals-"):
		_, err = LoadSignals(path)
	default:
		var s *Snapshot
		if s, err = Load(path); err == nil {
			defaults = s.Defaults
		}
	}
	return defaults, err
}

func corpusFiles(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	for _, ext := range []string{"yaml", "json"} {
		files, err := filepath.Glob(filepath.Join(dir, "*."+ext))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	return out
}

type expectation struct {
	at        string // file:line:col, of base names
	substring string
}

var wantLine = regexp.MustCompile(`^\s*#\s*(want|warn):\s*((?:[^\s:]+:)?\d+:\d+):\s*(.+?)\s*$`)

// expectations reads the "# want: [FILE:]LINE:COL: substring" and "# warn: …" lines of a file, and of FILE.want for files
// that cannot carry comments.
func expectations(t testing.TB, path, word string) []expectation {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if side, err := os.ReadFile(path + ".want"); err == nil {
		b = side
	}
	var out []expectation
	for line := range strings.Lines(string(b)) {
		m := wantLine.FindStringSubmatch(line)
		if m == nil {
			if strings.Contains(line, "# want") || strings.Contains(line, "# warn") {
				t.Fatalf("%s: unreadable expectation %q", path, line)
			}
			continue
		}
		if m[1] != word {
			continue
		}
		at := m[2]
		if strings.Count(at, ":") == 1 {
			at = filepath.Base(path) + ":" + at
		}
		out = append(out, expectation{at: at, substring: m[3]})
	}
	return out
}

// compare checks that exactly the expected problems came.
func compare(t *testing.T, what string, got Problems, want []expectation) {
	t.Helper()
	for _, p := range got {
		at := fmt.Sprintf("%s:%d:%d", filepath.Base(p.File), p.Line, p.Col)
		i := slices.IndexFunc(want, func(e expectation) bool { return e.at == at && strings.Contains(p.Message, e.substring) })
		if i < 0 {
			t.Errorf("unexpected %s: %s: %s", what, at, p.Message)
			continue
		}
		want = slices.Delete(slices.Clone(want), i, i+1)
	}
	for _, e := range want {
		t.Errorf("missing %s: %s: …%s…", what, e.at, e.substring)
	}
}

func TestGood(t *testing.T) {
	files := corpusFiles(t, filepath.Join(corpus(t), "good"))
	if len(files) < 12 {
		t.Fatalf("only %d good files", len(files))
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			defaults, err := load(path)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "warning", defaults, expectations(t, path, "warn"))
		})
	}
}

func TestBad(t *testing.T) {
	files := corpusFiles(t, filepath.Join(corpus(t), "bad"))
	if len(files) < 60 {
		t.Fatalf("only %d bad files", len(files))
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := load(path)
			problems, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("error is %T (%v), expected Problems", err, err)
			}
			want := expectations(t, path, "want")
			if len(want) == 0 {
				t.Errorf("the file names no expected problem; there are:\n%v", problems)
			}
			compare(t, "problem", problems, want)
			if !slices.IsSortedFunc(problems, func(a, b Problem) int {
				return strings.Compare(sortKey(a), sortKey(b))
			}) {
				t.Errorf("not sorted:\n%v", problems)
			}
		})
	}
}

func sortKey(p Problem) string { return fmt.Sprintf("%s:%08d:%08d", p.File, p.Line, p.Col) }
