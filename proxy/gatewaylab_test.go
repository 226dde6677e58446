package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a CA of workloads' and gateways' certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "workloads"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue returns a certificate for a SPIFFE ID or a DNS name, and its key.
func (a *authority) issue(id string, change ...func(*x509.Certificate)) (cert, key string) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if u, err := url.Parse(id); err == nil && u.Scheme == "spiffe" {
		template.URIs = []*url.URL{u}
	} else {
		template.DNSNames = []string{id}
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

const (
	gatewayName = "gateway.test"
	sidecarID   = "spiffe://cluster.test/ns/acme/sa/tool"
)

// chain is a sidecar, whose only way out is a gateway, and the gateway. The sidecar has no working name server.
type chain struct {
	*lab         // the sidecar
	gateway *lab // another proxy among the same issuer, names and upstreams
	ca      *authority
}

// showCert makes the sidecar show a certificate that has been written; showToken a token.
const (
	showCert  = "certFile: workload.crt, keyFile: workload.key"
	showToken = "tokenFile: workload-gateway.jwt"
)

func newChain(t testing.TB, show string, options ...labOption) *chain {
	t.Helper()
	ca := newAuthority(t)
	l := newLab(t)
	g := &lab{
		t: t, dir: t.TempDir(), issuer: l.issuer, names: l.names, tls: l.tls, plain: l.plain, mux: l.mux, roots: l.roots,
		records: newRecordSink(), log: new(lockedBuffer), token: l.token,
	}
	c := &chain{lab: l, gateway: g, ca: ca}
	g.write("ca.crt", ca.pem())
	c.certify(g, "gateway", gatewayName)
	c.configure(options...)
	g.startProxy()
	l.write("gateway-ca.crt", ca.pem())
	c.certify(l, "workload", sidecarID)
	l.write("workload-gateway.jwt", l.workloadToken("system:serviceaccount:acme:tool"))
	c.direct(g.addr, show)
	return c
}

// workloadToken is a service account's token for the gateway.
func (l *lab) workloadToken(subject string) string {
	return l.must(l.issuer.Mint(map[string]any{"sub": subject, "aud": "toolgate-gateway"}))
}

// certify writes a certificate into a lab's folder.
func (c *chain) certify(l *lab, name, id string, change ...func(*x509.Certificate)) {
	cert, key := c.ca.issue(id, change...)
	l.write(name+".crt", cert)
	l.write(name+".key", key)
}

// configure writes the gateway's own config and manifest.
func (c *chain) configure(options ...labOption) {
	f := c.files()
	tlsPort, plainPort := port(c.tls), port(c.plain)
	f.config = fmt.Sprintf(`apiVersion: toolgate/v1
kind: Sidecar
listeners:
  - name: tool
    kind: gateway
    address: "127.0.0.1:0"
    tools: [t1, t2]
    tls: {certFile: gateway.crt, keyFile: gateway.key}
gateway:
  clientCAFile: ca.crt
  tokens: {issuer: "%[1]s", audiences: [toolgate-gateway]}
  workloads:
    - ids: ["spiffe://cluster.test/ns/{tenant}/sa/*", "system:serviceaccount:{tenant}:*"]
      tools: [t1]
    - {ids: ["spiffe://cluster.test/ns/{tenant}/second/*", "dns:second.acme.test"], tools: [t2]}
manifests: ["manifests/*.yaml"]
identity: {issuers: [{issuer: "%[1]s", audiences: [toolgate]}]}
egress:
  resolver: "%[2]s"
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [%[3]s, %[4]s], tools: [t1, t2]}]
log: {level: debug, payloads: true}
limits: {headerTimeout: 2s, dialTimeout: 3s, idleTimeout: 30s, drain: 2s}
`, c.issuer.URL(), c.names.addr, tlsPort, plainPort)
	for _, o := range options {
		o(&f)
	}
	c.gateway.write("sidecar.yaml", f.config)
	c.gateway.write("manifests/t1.yaml", f.manifest)
	c.gateway.write("manifests/t2.yaml", strings.Replace(f.manifest, "name: t1", "name: t2", 1))
}

// reconfigure has the gateway read its config anew.
func (c *chain) reconfigure(options ...labOption) {
	c.configure(options...)
	c.gateway.proxy.Reload(c.gateway.load())
}

// direct makes a gateway at an address the sidecar's way out. Names are not resolved at the sidecar: nobody answers there.
func (c *chain) direct(address, show string, options ...labOption) {
	c.t.Helper()
	f := c.files()
	way := fmt.Sprintf("egress:\n  gateway: {address: %q, serverName: %s, caFile: gateway-ca.crt, %s}\n", address, gatewayName, show)
	f.config = replaceOnce(f.config, "egress:\n", way)
	f.config = strings.Replace(f.config, c.names.addr, "127.0.0.1:1", 1)
	f.manifest = strings.Replace(f.manifest, "allowedDomains: [", `allowedDomains: ["lied.ok.test:`+port(c.tls)+`", `, 1)
	for _, o := range options {
		o(&f)
	}
	c.write("sidecar.yaml", f.config)
	c.write("manifests/t1.yaml", f.manifest)
	c.proxy.Reload(c.load())
}

func (c *chain) path(l *lab, name string) string { return filepath.Join(l.dir, name) }
