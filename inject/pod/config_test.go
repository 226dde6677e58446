package pod

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/inject/settings"
)

// fleetText adds to the settings all that a fleet has.
const fleetText = settingsText + `
killSwitch: {servers: ["tls://toolgate-killswitch.toolgate.svc:4222"], publicKeyFile: key, credentialsURL: "https://toolgate-killswitch.toolgate.svc:15030/v1/sidecar-credentials"}
gateway: {address: "toolgate-gateway.toolgate.svc.cluster.local:15443", serverName: toolgate-gateway.toolgate.svc}
`

// loaded injects a pod of testdata, and loads the sidecar's config as the sidecar does, with the files that it names below a folder.
func loaded(t *testing.T, file string, s *settings.Settings) *config.Snapshot {
	t.Helper()
	given := read(t, file)
	r, err := Mutate(parsePod(t, given), namespaceOf(given), s, manifestOf)
	if err != nil {
		t.Fatal(err)
	}
	sidecar := r.Pod.Spec.InitContainers[slices.IndexFunc(r.Pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == SidecarContainer })]
	text := expand(t, sidecar.Env[0].Value)
	dir := t.TempDir()
	for file, content := range map[string]string{FileToken: "a", FileGateway: "b", FileKillSwitch: "c", FileAPIToken: "d", FileClusterCA: certificate(t), DirSecrets + "/search": "s"} {
		if err := os.MkdirAll(filepath.Dir(dir+file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range []string{DirToken, DirSecrets, DirState, DirCA} {
		text = strings.ReplaceAll(text, `"`+place, `"`+dir+place)
	}
	t.Setenv(configVariable, text)
	snapshot, err := config.Load(configSource)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, w := range snapshot.Defaults {
		if strings.Contains(w.Message, "loopback") || strings.Contains(w.Message, "caOutFile") {
			t.Errorf("a warning of what we render: %s", w)
		}
	}
	return snapshot
}

// TestKeysElsewhere: a token for the API server is not sent to anybody else.
func TestKeysElsewhere(t *testing.T) {
	for url, api := range map[string]bool{
		"https://kubernetes.default.svc/openid/v1/jwks":               true,
		"https://kubernetes.default.svc.cluster.local/openid/v1/jwks": true,
		"https://kubernetes.default.svcs.example/keys":                false,
		"https://oidc.example/keys":                                   false,
	} {
		s := testSettings(t, settingsText+"cluster: {jwksURL: \""+url+"\"}\n")
		r, err := Mutate(buildPod(t, "", "", "", ""), Namespace{}, s, manifestOf)
		if err != nil {
			t.Fatal(err)
		}
		text := r.Pod.Spec.InitContainers[0].Env[0].Value
		projected := slices.ContainsFunc(projectedToken(t, r.Pod).Sources, func(v corev1.VolumeProjection) bool {
			return v.ServiceAccountToken != nil && v.ServiceAccountToken.Audience == ""
		})
		if strings.Contains(text, FileAPIToken) != api || strings.Contains(text, FileClusterCA) != api || projected != api {
			t.Errorf("%s: token projected %v, in the config: %s", url, projected, text)
		}
	}
}

func projectedToken(t *testing.T, p *corev1.Pod) *corev1.ProjectedVolumeSource {
	t.Helper()
	i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == VolumeToken })
	if i < 0 || p.Spec.Volumes[i].Projected == nil {
		t.Fatalf("no volume %s", VolumeToken)
	}
	return p.Spec.Volumes[i].Projected
}

// TestCAState: the sidecar alone keeps the CA, wherever the settings would have it; a CA that is given is not kept.
func TestCAState(t *testing.T) {
	for want, intercept := range map[string]map[string]any{
		`"caStateDir": "/var/lib/toolgate-ca"`: {"caStateDir": "/elsewhere"},
		`"caKeyFile": "/etc/ca/key"`:           {"caCertFile": "/etc/ca/tls.crt", "caKeyFile": "/etc/ca/key"},
	} {
		s := testSettings(t, settingsText)
		s.SidecarConfig["intercept"] = intercept
		r, err := Mutate(buildPod(t, "", "", "toolgate/mode: transparent", ""), Namespace{}, s, manifestOf)
		if err != nil {
			t.Fatal(err)
		}
		text := r.Pod.Spec.InitContainers[1].Env[0].Value
		if !strings.Contains(text, want) || strings.Contains(text, "caStateDir") == strings.Contains(text, "caKeyFile") {
			t.Errorf("%v: the config is %s", intercept, text)
		}
		for _, c := range slices.Concat(r.Pod.Spec.InitContainers, r.Pod.Spec.Containers) {
			mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == VolumeCAKey })
			if mounts != (c.Name == SidecarContainer) {
				t.Errorf("the container %s mounts the CA's key: %v", c.Name, mounts)
			}
		}
	}
}

// expand does what the kubelet does with a variable's value: $$ is one $, and $(NAME) would be replaced.
func expand(t *testing.T, value string) string {
	t.Helper()
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '$' && i+1 < len(value) {
			switch value[i+1] {
			case '$':
				i++
			case '(':
				t.Errorf("the kubelet would replace %q", value[i:min(i+20, len(value))])
			}
		}
		out.WriteByte(value[i])
	}
	return out.String()
}

func fleet(t *testing.T) *settings.Settings {
	t.Helper()
	s := testSettings(t, fleetText)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.KillSwitch.PublicKey = "ed25519:" + base64.RawURLEncoding.EncodeToString(public)
	s.KillSwitch.CA, s.Gateway.CA, s.CA.Extra = certificate(t), certificate(t), certificate(t)
	return s
}

// TestConfigLoads: the sidecar's own loader takes what is rendered for every golden pod, alone and in a fleet.
func TestConfigLoads(t *testing.T) {
	for _, file := range pods(t) {
		for name, s := range map[string]*settings.Settings{"alone": testSettings(t, settingsText), "fleet": fleet(t)} {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				loaded(t, file, s)
			})
		}
	}
}

// TestConfigSays: what was meant arrives.
func TestConfigSays(t *testing.T) {
	s := loaded(t, "testdata/pods/transparent.yaml", fleet(t))
	if len(s.Tools) != 2 || s.Tools["mail"].Description != "costs $(HOME) $$ and $5" {
		t.Errorf("tools: %+v", s.Tools["mail"])
	}
	if len(s.Bindings) != 1 || s.Bindings[0].Name != "search" || len(s.Egress.Exempt) != 0 {
		t.Errorf("bindings of other pods' tools: %+v %+v", s.Bindings, s.Egress.Exempt)
	}
	if c := s.Audit.Capture; !slices.Equal(c.Tools, []string{"mail"}) {
		t.Errorf("captures %+v, expected mail's alone", c)
	}
	if s.Fence.Rules != config.FenceNetinit || s.Fence.ProbePort != PortProbe || s.Admin != "[::]:15020" || len(s.Listeners) != 8 {
		t.Errorf("fence %+v, admin %s, listeners %+v", s.Fence, s.Admin, s.Listeners)
	}
	if !s.Identity.Required || len(s.Identity.Issuers) != 1 || !slices.Equal(s.Identity.Issuers[0].Claims.Tenant, []string{"kubernetes.io.namespace"}) {
		t.Errorf("identity %+v", s.Identity)
	}
	k := s.KillSwitch.NATS
	if len(k.Servers) != 1 || k.CredentialsURL == "" || !strings.HasSuffix(k.TokenFile, FileKillSwitch) || k.CA == "" || !strings.HasSuffix(s.KillSwitch.StateDir, DirState) {
		t.Errorf("kill switch %+v", s.KillSwitch)
	}
	if g := s.Egress.Gateway; g.Host != "toolgate-gateway.toolgate.svc.cluster.local" || g.ServerName != "toolgate-gateway.toolgate.svc" || g.Roots == nil || !strings.HasSuffix(g.TokenFile, FileGateway) {
		t.Errorf("gateway %+v", g)
	}
	if !strings.HasSuffix(s.Intercept.BundleOutFile, FileBundle) || s.Intercept.TrustStoreFile != "" {
		t.Errorf("intercept %+v", s.Intercept)
	}
	java := loaded(t, "testdata/pods/java.yaml", fleet(t))
	if !strings.HasSuffix(java.Intercept.TrustStoreFile, FileTrustStore) {
		t.Errorf("intercept %+v", java.Intercept)
	}
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
