package toolgate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
)

// TestMarkedExamples loads every block that says what it is: "yaml config", "yaml bindings" and "yaml identity" (of a config), "yaml
// manifest", "yaml revocations" or "yaml signals".
func TestMarkedExamples(t *testing.T) {
	loaders := map[string]func(path string) error{
		"config":      func(path string) error { _, err := config.Load(path); return err },
		"bindings":    loadBindings,
		"identity":    loadIdentity,
		"manifest":    func(path string) error { _, _, err := config.LoadManifest(path); return err },
		"revocations": func(path string) error { _, err := config.LoadRevocations(path); return err },
		"signals":     func(path string) error { _, err := config.LoadSignals(path); return err },
	}
	seen := map[string]int{}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			kind, marked := strings.CutPrefix(b.info, "yaml ")
			if !marked {
				continue
			}
			load := loaders[kind]
			if load == nil {
				t.Errorf("%s:%d: a block of YAML is a config, bindings, an identity, a manifest, revocations or signals, not %q", d.name, b.line, kind)
				continue
			}
			seen[kind]++
			t.Run(fmt.Sprintf("%s:%d", d.name, b.line), func(t *testing.T) {
				dir := surroundings(t)
				path := filepath.Join(dir, "example.yaml")
				put(t, path, b.text)
				if err := load(path); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if seen["config"] == 0 || seen["bindings"] == 0 || seen["identity"] == 0 || seen["revocations"] == 0 || seen["signals"] == 0 {
		t.Errorf("the pages have too few examples to load: %v", seen)
	}
}

// loadBindings loads a config around the file's broker.
func loadBindings(path string) error {
	return loadAround(path, `identity: {workloadTokenFile: keys/workload-token, issuers: [{issuer: "https://idp.example", audiences: [toolgate]}]}`)
}

// loadIdentity loads a config around the file's identity.
func loadIdentity(path string) error { return loadAround(path, "") }

// loadAround loads a config with the file's part of it and another one.
func loadAround(path, more string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := filepath.Join(filepath.Dir(path), "sidecar.yaml")
	err = os.WriteFile(whole, append([]byte(`apiVersion: toolgate/v1
kind: Sidecar
listeners: [{name: tool, address: "127.0.0.1:15001", tool: draft_refund_request}]
manifests: ["manifests/*.yaml"]
intercept: {caOutFile: ca.crt}
killSwitch: {file: revocations.yaml}
`+more+"\n"), text...), 0o600)
	if err != nil {
		return err
	}
	_, err = config.Load(whole)
	return err
}

// surroundings makes a folder with what examples refer to: the manifest that docs/manifest.md shows, keys and secrets.
func surroundings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("docs/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range cut(t, "docs/manifest.md", string(text)).blocks {
		if strings.HasPrefix(b.info, "yaml") {
			put(t, filepath.Join(dir, "manifests/draft_refund_request.yaml"), b.text)
			break
		}
	}
	put(t, filepath.Join(dir, "keys/workload-token"), "token")
	put(t, filepath.Join(dir, "keys/client-secret"), "secret")
	put(t, filepath.Join(dir, "keys/api-key"), "key")
	put(t, filepath.Join(dir, "keys/pin"), "pin")
	put(t, filepath.Join(dir, "keys/github-app.pem"), rsaPEM())
	put(t, filepath.Join(dir, "manifests/any.yaml"), anyTool)
	put(t, filepath.Join(dir, "keys/signals-push"), "a-bearer-token-of-the-sender")
	put(t, filepath.Join(dir, "keys/signals-poll"), "a-bearer-token-for-the-sender")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	put(t, filepath.Join(dir, "keys/client-key.pem"), keyPEM)
	self := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, self, self, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	put(t, filepath.Join(dir, "keys/gateway.crt"), certPEM)
	put(t, filepath.Join(dir, "keys/gateway.key"), keyPEM)
	put(t, filepath.Join(dir, "keys/ca.crt"), certPEM)
	return dir
}

// anyTool may reach what recipes are for.
const anyTool = `name: any
owner: docs
version: "1"
description: A tool of a recipe.
risk: low
capabilityClasses: [credential_use]
requiredScopes: []
sideEffects: none
timeoutMs: 1000
egress: {allowedDomains: [github.com, api.github.com, vault.example, api.partner.example]}
`

// rsaPEM makes a key once, since that takes long.
var rsaPEM = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
})

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
