package settings

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const least = "apiVersion: toolgate/v1\nkind: Injector\nsidecarImage: s:1\nfenceImage: f:1\n"

func TestDefaults(t *testing.T) {
	s, err := Parse("s.yaml", []byte(least))
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	if s.UID != 64117 || s.Mode != Explicit || s.Resources != want.Resources || s.Probes != want.Probes || !s.CA.SystemBundle || !s.IPv6 || len(s.Revision) != 12 {
		t.Errorf("got %+v", s)
	}
	part, err := Parse("s.yaml", []byte(least+"resources: {cpuLimit: \"2\"}\nca: {systemBundle: false}\nsidecarConfig: {audit: {output: stderr}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if part.Resources.CPULimit != "2" || part.Resources.MemoryLimit != want.Resources.MemoryLimit || part.CA.SystemBundle || part.Revision == s.Revision {
		t.Errorf("one key of a mapping unsets its others, or nothing: %+v", part)
	}
}

// TestMistakes: each with its place.
func TestMistakes(t *testing.T) {
	for _, bad := range []struct{ text, want string }{
		{"", "s.yaml:1:1: found an empty file"},
		{"a: [", "s.yaml:1:4: found broken YAML"},
		{least + "uuid: 5\n", `s.yaml:5:1: found broken YAML, expected the form of a settings file: unknown field "uuid"`},
		{least + "ca: {systemBundel: true}\n", `s.yaml:5:6: `},
		{least + "uid: x\n", "s.yaml:5:6: "},
		{least + "uid: 5\nuid: 6\n", "s.yaml:6:1: "},
		{least + "---\nuid: 5\n", "s.yaml:5:1: found a second document"},
		{strings.Replace(least, "Injector", "Sidecar", 1), `s.yaml:2:7: kind: found "Sidecar", expected Injector`},
		{strings.Replace(least, "toolgate/v1", "toolgate/v2", 1), "s.yaml:1:13: apiVersion: "},
		{strings.Replace(least, "fenceImage: f:1\n", "", 1), "fenceImage: found nothing"},
		{least + "mode: both\n", `s.yaml:5:7: mode: found "both", expected explicit, transparent`},
		{least + "imagePullPolicy: Sometimes\n", "s.yaml:5:18: imagePullPolicy"},
		{least + "uid: 0\n", "s.yaml:5:6: uid: found 0"},
		{least + "uid: 64210\n", "toolUID: found 64200, expected ids"},
		{least + "resources:\n  cpuLimit: lots\n", `s.yaml:6:13: resources.cpuLimit: found "lots"`},
		{least + "resources:\n  memoryRequest: 1Gi\n", "s.yaml:6:18: resources.memoryRequest: found 1Gi, expected at most the limit, 128Mi"},
		{least + "fenceResources: {cpuRequest: \"0\"}\n", "fenceResources.cpuRequest: found \"0\""},
		{least + "probes: {startupFailures: 0}\n", "probes.startupFailures: found 0, expected 1 to 3600"},
		{least + "tokenAudience: ''\n", "tokenAudience: found nothing"},
		{least + "cluster: {issuer: \"http://idp.example\"}\n", "cluster.issuer: found"},
		{least + "ca: {extra: nothing}\n", "ca.extra: found text that is not PEM"},
		{least + "proxyVariables: {noProxy: [\"a,b\"]}\n", "proxyVariables.noProxy: found \"a,b\""},
		{least + "proxyVariables: {noProxy: [\"$(HOME)\"]}\n", "proxyVariables.noProxy"},
		{least + "passthrough: [\"*\"]\n", "passthrough: found \"*\""},
		{least + "passthrough: [\"*.Example.com\"]\n", "passthrough: found"},
		{least + "killSwitch: {servers: [\"tls://nats:4222\"]}\n", "killSwitch.publicKeyFile: found nothing"},
		{least + "gateway: {address: gateway}\n", "gateway.address: found \"gateway\""},
		{least + "sidecarConfig:\n  listeners: []\n", "sidecarConfig.listeners: found it, expected it to be left out"},
		{least + "sidecarConfig: {manifests: [x]}\n", "sidecarConfig.manifests"},
	} {
		_, err := Parse("s.yaml", []byte(bad.text))
		if p := (Problems)(nil); !errors.As(err, &p) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: got %v, want %s", strings.TrimPrefix(bad.text, least), err, bad.want)
		}
	}
	_, err := Parse("s.yaml", []byte(least+"mode: both\nuid: 0\n"))
	if p := (Problems)(nil); !errors.As(err, &p) || len(p) != 2 {
		t.Errorf("two mistakes give %v", err)
	}
}

// TestFiles: Load reads the files that settings name, relative to their folder.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key", "the-public-key\n")
	write("ca.pem", certificate(t))
	write("s.yaml", least+"killSwitch: {servers: [\"tls://nats:4222\"], publicKeyFile: key, caFile: ca.pem}\ngateway: {address: \"g:15443\", caFile: ca.pem}\n")
	s, err := Load(filepath.Join(dir, "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if s.KillSwitch.PublicKey != "the-public-key" || !strings.HasPrefix(s.KillSwitch.CA, "-----BEGIN") || s.Gateway.CA != s.KillSwitch.CA {
		t.Errorf("got %+v", s.KillSwitch)
	}
	write("key", "another\n")
	if next, err := Load(filepath.Join(dir, "s.yaml")); err != nil || next.Revision == s.Revision {
		t.Errorf("another key has the same revision, or %v", err)
	}
	write("ca.pem", "nothing")
	if _, err := Load(filepath.Join(dir, "s.yaml")); err == nil || !strings.Contains(err.Error(), "killSwitch.caFile: found text that is not PEM") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, "s.yaml")); err == nil || !strings.Contains(err.Error(), "killSwitch.publicKeyFile: found no readable file") {
		t.Errorf("got %v", err)
	}
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
