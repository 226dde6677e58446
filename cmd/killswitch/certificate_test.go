package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// pairs writes certificates of one CA into one folder.
type pairs struct {
	*testing.T
	dir  string
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate
	pool *x509.CertPool
	ends time.Time // of the last one
}

func newPairs(t *testing.T) *pairs {
	p := &pairs{T: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	var err error
	p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &p.key.PublicKey, p.key)
	check(t, err)
	p.ca, err = x509.ParseCertificate(der)
	check(t, err)
	p.pool.AddCert(p.ca)
	check(t, os.WriteFile(filepath.Join(p.dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return p
}

// write replaces the pair, the key alone when onlyKey is set.
func (p *pairs) write(serial int64, onlyKey bool) {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(p, err)
	p.ends = time.Now().Add(time.Hour + time.Duration(serial)*time.Minute)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: p.ends, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, p.ca, &key.PublicKey, p.key)
	check(p, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	check(p, err)
	files := map[string][]byte{"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})}
	if !onlyKey {
		files["cert.pem"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	for name, b := range files {
		check(p, os.WriteFile(filepath.Join(p.dir, name+".new"), b, 0o600))
		check(p, os.Rename(filepath.Join(p.dir, name+".new"), filepath.Join(p.dir, name)))
	}
}

// TestCertificatesAreReadAgain: the program serves new certificates to new connections and keeps those that stand.
func TestCertificatesAreReadAgain(t *testing.T) {
	p := newPairs(t)
	p.write(10, false)
	dir, cert, key := t.TempDir(), filepath.Join(p.dir, "cert.pem"), filepath.Join(p.dir, "key.pem")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	check(t, err)
	cmd := exec.Command("killswitch", "serve", "--dir", dir, "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--nats-tls-cert", cert, "--nats-tls-key", key)
	cmd.Stdout = out
	check(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var m []string
	re := regexp.MustCompile(`listening on (https://\S+)[\s\S]*servers: \["(tls://[^"]+)"\]`)
	eventually(t, "it has started", func() bool {
		b, err := os.ReadFile(out.Name())
		check(t, err)
		m = re.FindStringSubmatch(string(b))
		return m != nil
	})
	creds := nats.UserCredentials(filepath.Join(dir, "sidecar.creds"))
	var serial int64
	dial := func(o ...nats.Option) (*nats.Conn, error) {
		config := &tls.Config{RootCAs: p.pool, MinVersion: tls.VersionTLS12, VerifyConnection: func(s tls.ConnectionState) error {
			serial = s.PeerCertificates[0].SerialNumber.Int64()
			return nil
		}}
		return nats.Connect(m[2], append(o, creds, nats.Secure(config))...)
	}
	lost := make(chan error, 1)
	standing, err := dial(nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }))
	check(t, err)
	api, err := tls.Dial("tcp", strings.TrimPrefix(m[1], "https://"), &tls.Config{RootCAs: p.pool})
	check(t, err)
	p.write(11, true) // half of a rotation: the old pair stays
	if conn, err := dial(); err != nil || serial != 10 {
		t.Fatalf("with another's key: %v, certificate %d", err, serial)
	} else {
		conn.Close()
	}
	p.write(12, false)
	conn, err := dial()
	check(t, err)
	conn.Close()
	if serial != 12 {
		t.Errorf("NATS: a new connection gets certificate %d", serial)
	}
	u, err := url.Parse(m[1])
	check(t, err)
	fresh, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: p.pool})
	check(t, err)
	if n := fresh.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); n != 12 {
		t.Errorf("API: a new connection gets certificate %d", n)
	}
	_ = fresh.Close()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.pool}}}
	res, err := web.Get(m[1] + "/metrics")
	check(t, err)
	text, err := io.ReadAll(res.Body)
	check(t, err)
	_ = res.Body.Close()
	for _, name := range []string{"api", "nats"} {
		if want := fmt.Sprintf("toolgate_central_certificate_expiry_timestamp_seconds{certificate=%q} %g", name, float64(p.ends.Unix())); !strings.Contains(string(text), want) {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	// Those that stand go on.
	check(t, standing.Flush())
	select {
	case err := <-lost:
		t.Errorf("a connection was lost: %v", err)
	default:
	}
	standing.Close()
	_, err = api.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	check(t, err)
	b := make([]byte, 64)
	n, err := api.Read(b)
	check(t, err)
	if !strings.Contains(string(b[:n]), http.StatusText(http.StatusOK)) {
		t.Errorf("the API's standing connection answers %q", b[:n])
	}
	_ = api.Close()
}
