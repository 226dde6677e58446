package main

import (
	"bytes"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/roots"
)

// trusting is a lab whose upstream's CA is one of the extra ones, and known in no other way.
func trusting(t *testing.T) *lab {
	l := newLab(t)
	l.edit("sidecar.yaml", "  upstreamCAFile: upstream-ca.crt\n", "")
	l.edit("sidecar.yaml", "caOutFile: ca.crt", "caOutFile: ca.crt, bundleOutFile: bundle.pem, trustStoreFile: trust.p12, extraCAFiles: [upstream-ca.crt]")
	return l
}

// byBundle calls as a tool does that trusts the bundle and nothing else.
func (r *running) byBundle(t *testing.T, target string) error {
	t.Helper()
	client := r.client("multi", "reader", r.lab.mint(nil), nil)
	defer client.CloseIdleConnections()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(r.lab.read("bundle.pem")))
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
	res, err := client.Get(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if code := res.Header.Get("Toolgate-Denial"); code != "" {
		t.Errorf("%s: %s", target, code)
	}
	return err
}

// TestTrustFiles: one file lets a tool verify the sidecar on intercepted calls and the upstream on relayed ones; the sidecar
// verifies the former by the same extra CA.
func TestTrustFiles(t *testing.T) {
	l := trusting(t)
	r := l.start()
	for _, host := range []string{"seen.ok.test", "pass.ok.test"} {
		if err := r.byBundle(t, l.url("https", host, "/")); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	bundle, err := roots.Parse([]byte(l.read("bundle.pem")))
	if err != nil {
		t.Fatal(err)
	}
	store, err := pkcs12.DecodeTrustStore([]byte(l.read("trust.p12")), roots.Password)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(bundle, store, func(der []byte, c *x509.Certificate) bool { return bytes.Equal(der, c.Raw) }) {
		t.Errorf("the trust store has %d certificates and the bundle %d", len(store), len(bundle))
	}
	own, err := roots.Parse([]byte(l.read("ca.crt")))
	if err != nil || len(own) != 1 || !bytes.Equal(bundle[len(bundle)-1], own[0]) {
		t.Errorf("the CA's own certificate is not the last of the bundle: %v", err)
	}
	if public, _ := roots.Public(); len(bundle) != len(public)+2 {
		t.Errorf("%d certificates, expected %d public ones and two", len(bundle), len(public))
	}
}

// TestTrustFilesFollow: a rotated extra CA is in the files once the reload is in force, and the sidecar's own CA stays.
func TestTrustFilesFollow(t *testing.T) {
	l := trusting(t)
	r := l.start()
	own := l.read("ca.crt")
	added, err := proxy.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	l.write("upstream-ca.crt", string(l.roots)+string(added.PEM()))
	r.log.find(t, `"config reloaded"`)
	if text := l.read("bundle.pem"); !strings.Contains(text, string(added.PEM())) || !strings.Contains(text, own) || l.read("ca.crt") != own {
		t.Error("the bundle lacks the added CA, or the sidecar's own changed")
	}
	if err := r.byBundle(t, l.url("https", "seen.ok.test", "/")); err != nil {
		t.Error(err)
	}
}

// TestImageFromScratch: where the system has no roots, those that are built in are written and used.
func TestImageFromScratch(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/nonexistent")
	t.Setenv("SSL_CERT_DIR", "/nonexistent")
	l := trusting(t)
	p := l.begin(io.Discard)
	p.log.find(t, `"CA certificates written","public":\d+,"public_from":"built in","extra":1`)
	p.listen() // not before the files are there
	if status, page := p.adminPage("/healthz"); status != http.StatusOK {
		t.Errorf("%d %s", status, page)
	}
	bundle, err := roots.Parse([]byte(l.read("bundle.pem")))
	if err != nil || len(bundle) < 50 {
		t.Errorf("%d certificates, %v", len(bundle), err)
	}
	if err := p.byBundle(t, l.url("https", "seen.ok.test", "/")); err != nil {
		t.Error(err)
	}
	// The process that this test starts is this test's own program: what it finds, the sidecar finds.
	out, err := exec.Command(os.Args[0], "-test.run=^TestBuiltInRoots$", "-test.v").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("a public root is trusted")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBuiltInRoots is run by TestImageFromScratch, without roots of the system.
func TestBuiltInRoots(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != "/nonexistent" {
		t.Skip("for a process of its own, which TestImageFromScratch starts")
	}
	certs, source := roots.Public()
	if source != roots.BuiltIn {
		t.Fatalf("public roots from %s", source)
	}
	verified := 0
	for _, der := range certs {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		// Roots is nil: by those of the system.
		if _, err := c.Verify(x509.VerifyOptions{CurrentTime: c.NotBefore.Add(time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
			verified++
		}
	}
	if verified < len(certs)/2 {
		t.Fatalf("%d of %d public roots are trusted", verified, len(certs))
	}
	t.Logf("a public root is trusted: %d of %d", verified, len(certs))
}

// TestCAOverRestarts: a tool that read its roots before the sidecar was killed verifies the next one, and so does whoever holds the file
// and not its name. A CA that cannot be used is replaced.
func TestCAOverRestarts(t *testing.T) {
	l := trusting(t)
	l.edit("sidecar.yaml", "caOutFile: ca.crt", "caStateDir: ca-state, caOutFile: ca.crt")
	p := l.run(io.Discard)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(l.read("bundle.pem")))
	call := func() error {
		client := p.client("multi", "reader", l.mint(nil), nil)
		defer client.CloseIdleConnections()
		client.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
		res, err := client.Get(l.url("https", "seen.ok.test", "/"))
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	kill := func() {
		p.signal(t, syscall.SIGKILL)
		p.end(t)
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	files := []string{"bundle.pem", "trust.p12", "ca.crt"}
	var before []os.FileInfo
	for _, f := range files {
		st, err := os.Stat(l.path(f))
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, st)
	}
	kill()
	p = l.run(io.Discard)
	if err := call(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	for i, f := range files {
		if st, err := os.Stat(l.path(f)); err != nil || !os.SameFile(st, before[i]) || !st.ModTime().Equal(before[i].ModTime()) {
			t.Errorf("%s was written again, %v", f, err)
		}
	}
	kill()
	l.write("ca-state/ca.pem", "broken")
	p = l.begin(io.Discard)
	p.log.find(t, `"the kept CA is not used; tools that trust it must be restarted","folder":"[^"]+ca-state","why":"it is not one certificate and the key of it"`)
	p.listen()
	if err := call(); err == nil {
		t.Error("the new CA is the old one")
	}
	if err := p.byBundle(t, l.url("https", "seen.ok.test", "/")); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(l.path("bundle.pem")); err != nil || !os.SameFile(st, before[0]) {
		t.Errorf("whoever holds the bundle does not see the new one, %v", err)
	}
}
