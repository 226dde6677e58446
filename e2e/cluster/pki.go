//go:build linux

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs what the components show each other.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	next int64
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	a := &authority{dir: dir, key: key, next: 2}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write("ca", der, key)
}

func (a *authority) write(name string, der []byte, key any) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if der != nil {
		if err := writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der); err != nil {
			return err
		}
	}
	return writePEM(filepath.Join(a.dir, name+".key"), "PRIVATE KEY", private)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// issue writes name.crt and name.key, good for a server of hosts and for a client.
func (a *authority) issue(name string, subject pkix.Name, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
	}
	a.next++
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.write(name, der, key)
}

// serviceAccountKey signs the tokens of service accounts.
func (a *authority) serviceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(a.dir, "sa.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return a.write("sa", nil, key)
}

// users are the components that ask the API server, by their names in RBAC.
var users = map[string]pkix.Name{
	"admin":     {CommonName: "admin", Organization: []string{"system:masters"}},
	"kcm":       {CommonName: "system:kube-controller-manager"},
	"scheduler": {CommonName: "system:kube-scheduler"},
	"kubelet":   {CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
}

// certificates makes everything that the components show each other, and a kubeconfig for each user.
func (m *machine) certificates() error {
	a, err := newAuthority(m.path("pki"))
	if err != nil {
		return err
	}
	if err := a.serviceAccountKey(); err != nil {
		return err
	}
	if err := a.issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "127.0.0.1", nodeIP, apiServiceIP); err != nil {
		return err
	}
	for user, subject := range users {
		if err := a.issue(user, subject, nodeName, "127.0.0.1", nodeIP); err != nil {
			return err
		}
		if err := m.kubeconfig(user); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) kubeconfig(user string) error {
	var parts []any
	for _, file := range []string{"ca.crt", user + ".crt", user + ".key"} {
		text, err := os.ReadFile(m.path("pki", file))
		if err != nil {
			return err
		}
		parts = append(parts, base64.StdEncoding.EncodeToString(text))
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: %s}}]
users: [{name: user, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: node, context: {cluster: node, user: user}}]
current-context: node
`, parts...)
	return os.WriteFile(m.path(user+".kubeconfig"), []byte(text), 0o600)
}
