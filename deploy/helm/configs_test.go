package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

var mounted = regexp.MustCompile(`(?:/var/run/secrets/toolgate|/etc/toolgate/tls|/etc/toolgate/manifests|/var/run/toolgate/ca|/var/lib/toolgate|/etc/toolgate/secrets|/etc/toolgate/killswitch)\b`)

// loads writes a config beside stand-ins for what a cluster mounts, and has the sidecar's own reader read it.
func loads(t *testing.T, text string) *config.Snapshot {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"tls.crt": certificate(t), "ca.crt": certificate(t), "token": "x", "api-token": "x", "killswitch-token": "x", "public-key": "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "search.yaml": searching, "a": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair(t, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	text = mounted.ReplaceAllString(text, dir)
	text = strings.ReplaceAll(text, dir+"/*.yaml", dir+"/search.yaml")
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// TestGatewayConfig: the sidecar takes the config that the chart writes for the gateway.
func TestGatewayConfig(t *testing.T) {
	text, err := render(t, "-f", values(t, "manifests: {search: "+quoted(searching)+"}\ngateway: {enabled: true, config: {audit: {otlp: {endpoint: \"https://records.example:4318\"}}, tracing: {endpoint: \"https://traces.example:4318\"}}}\nsidecar: {config: {egress: {clusterCIDRs: [10.0.0.0/8]}, audit: {output: stderr}}}"))
	if err != nil {
		t.Fatal(text)
	}
	for _, o := range objects(t, text) {
		if o.id() == "ConfigMap toolgate-gateway" {
			s := loads(t, o.text("data", "gateway.yaml"))
			if s.Audit.OTLP.Endpoint != "https://records.example:4318" || s.Tracing.Endpoint != "https://traces.example:4318" {
				t.Errorf("the gateway's collectors are %+v, %+v", s.Audit, s.Tracing)
			}
			if k := s.KillSwitch.NATS; len(k.Servers) != 1 || len(k.Keys) != 1 || k.CredentialsURL == "" || k.CAFile == "" {
				t.Errorf("the gateway's kill switch is %+v", k)
			}
			return
		}
	}
	t.Error("the chart writes no config for the gateway")
}

// TestPolicyConfig: the sidecar takes the config that a policy gives it.
func TestPolicyConfig(t *testing.T) {
	text, err := render(t, "-f", values(t, "injection: {mode: policy}\nmanifests: {search: "+quoted(searching)+"}\nkillSwitch: {enabled: false}\n"+bound))
	if err != nil {
		t.Fatal(text)
	}
	for _, o := range objects(t, text) {
		if o.kind() == "MutatingAdmissionPolicy" {
			given := literal(t, o.list("spec", "mutations")[0].text("jsonPatch", "expression"), "'TOOLGATE_CONFIG', value: ")
			loads(t, strings.ReplaceAll(given, "$$", "$")) // as the kubelet does
			return
		}
	}
	t.Error("the chart writes no policy")
}
