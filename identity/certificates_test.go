package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"
)

// signer is a CA.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var certificatesStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// certificate makes one that parent signs; nil: itself.
func certificate(t testing.TB, name string, parent *signer, life time.Duration, ca bool) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: certificatesStart.Add(-time.Hour), NotAfter: certificatesStart.Add(life)}
	if ca {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		template.ExtKeyUsage, template.URIs = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []*url.URL{{Scheme: "spiffe", Host: "a.test", Path: "/" + name}}
	}
	if parent == nil {
		parent = &signer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

func pool(all ...*signer) *x509.CertPool {
	p := x509.NewCertPool()
	for _, s := range all {
		p.AddCert(s.cert)
	}
	return p
}

// TestCertificatesAgreeWithVerifying: what is remembered never says more than a verification at that time would, whatever came before.
func TestCertificatesAgreeWithVerifying(t *testing.T) {
	root, other := certificate(t, "root", nil, 24*time.Hour, true), certificate(t, "other", nil, 24*time.Hour, true)
	short := certificate(t, "short", root, 20*time.Second, true)
	chains := map[string][]*x509.Certificate{
		"long":                    {certificate(t, "long", root, time.Hour, false).cert},
		"ends soon":               {certificate(t, "soon", root, 10*time.Second, false).cert},
		"by another root":         {certificate(t, "other", other, time.Hour, false).cert},
		"by one that ends sooner": {certificate(t, "below", short, time.Hour, false).cert, short.cert},
		"its own way left out":    {certificate(t, "below2", short, time.Hour, false).cert},
		"nothing":                 nil,
	}
	roots := pool(root)
	c := NewCertificates(roots)
	for _, after := range []time.Duration{0, 0, time.Second, 10 * time.Second, 11 * time.Second, 20 * time.Second, 21 * time.Second, time.Minute, 2 * time.Minute, -2 * time.Hour, time.Hour, time.Hour + time.Second} {
		for name, chain := range chains {
			at := certificatesStart.Add(after)
			got, err := c.Verify(chain, at)
			want, wantErr := VerifyCertificate(chain, roots, at)
			if !slices.Equal(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%s after %v: %v %v, want %v %v", name, after, got, err, want, wantErr)
			}
		}
	}
	if len(c.good) == 0 {
		t.Error("nothing is remembered")
	}
	if _, err := NewCertificates(nil).Verify(chains["long"], certificatesStart); err == nil {
		t.Error("without roots one is believed")
	}
	if _, err := NewCertificates(pool(other)).Verify(chains["long"], certificatesStart); err == nil {
		t.Error("other roots believe it")
	}
}

// TestCertificatesAreVerifiedAgain: a success is worth a minute, by roots that would say no.
func TestCertificatesAreVerifiedAgain(t *testing.T) {
	root := certificate(t, "root", nil, time.Hour, true)
	chain := []*x509.Certificate{certificate(t, "x", root, time.Hour, false).cert}
	c := NewCertificates(pool(root))
	if _, err := c.Verify(chain, certificatesStart); err != nil {
		t.Fatal(err)
	}
	c.roots = x509.NewCertPool() // nobody does this; it shows which answers are remembered
	for after, remembered := range map[time.Duration]bool{0: true, verifiedFor: true, verifiedFor + 1: false, -1: false} {
		_, err := c.Verify(chain, certificatesStart.Add(after))
		if invalid := (*InvalidError)(nil); (err == nil) != remembered || err != nil && !errors.As(err, &invalid) {
			t.Errorf("after %v: %v", after, err)
		}
	}
	if _, err := c.Verify(append(slices.Clone(chain), root.cert), certificatesStart); err == nil {
		t.Error("with another certificate behind it a chain counts as the one that was verified")
	}
}

// TestCertificatesAreBounded: a CA that issues without end fills no memory.
func TestCertificatesAreBounded(t *testing.T) {
	c := NewCertificates(nil)
	for i := range 3 * maxVerified {
		at := certificatesStart.Add(time.Duration(i) * time.Millisecond)
		var key [32]byte
		copy(key[:], fmt.Sprint(i))
		c.keep(key, verified{from: at, until: at.Add(verifiedFor)})
		if _, there := c.good[key]; !there || len(c.good) > maxVerified {
			t.Fatalf("%d are kept, this one: %v", len(c.good), there)
		}
	}
}

func BenchmarkCertificates(b *testing.B) {
	root := certificate(b, "root", nil, time.Hour, true)
	chain, roots := []*x509.Certificate{certificate(b, "x", root, time.Hour, false).cert}, pool(root)
	b.Run("verified each time", func(b *testing.B) {
		for b.Loop() {
			_, _ = VerifyCertificate(chain, roots, certificatesStart)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		c := NewCertificates(roots)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = c.Verify(chain, certificatesStart)
		}
	})
}
