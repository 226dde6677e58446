package helm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

// ours are the folders of files that the settings name.
var ours = regexp.MustCompile(`File: /[a-z/-]+/`)

// injectorSettings are those that the chart writes for the injector, as the injector reads them. Files that a cluster mounts are stood in for.
func injectorSettings(t *testing.T, text string) *settings.Settings {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"public-key": "ed25519:BBAiN8RsGW31d7oSbPusCjFlAlveLvHai1viQTb6gfI\n", "ca.crt": certificate(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects(t, text) {
		if o.kind() != "ConfigMap" || o.text("data", "settings.yaml") == "" {
			continue
		}
		file := ours.ReplaceAllString(o.text("data", "settings.yaml"), "File: "+dir+"/")
		s, err := settings.Parse("settings.yaml", []byte(file))
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		return s
	}
	return nil
}

// certificate is some CA's.
func certificate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	pair(t, path, filepath.Join(t.TempDir(), "ca.key"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pair writes a certificate and its key.
func pair(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"x"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSettings: the injector takes the settings of every installation.
func TestSettings(t *testing.T) {
	each(t, func(t *testing.T, i installation, text string) {
		s := injectorSettings(t, text)
		if policy := strings.HasPrefix(i.name, "policy"); (s == nil) != policy {
			t.Fatalf("settings: %v", s)
		} else if policy {
			return
		}
		if s.SidecarImage == "" || s.FenceImage == s.SidecarImage || s.SecretName != "toolgate-secrets" {
			t.Errorf("found %+v", s)
		}
		// Sidecars try no search domains for the gateway; its certificate knows no domain of the cluster.
		if g := s.Gateway; g.Address != "" && (!strings.HasSuffix(g.Address, ".svc.cluster.local:15443") || !strings.HasSuffix(g.ServerName, ".svc")) {
			t.Errorf("found the gateway %+v, expected its whole name, and a name of its certificate", g)
		}
	})
}

const searching = `name: search
owner: search-team
version: "1"
risk: low
egress: {allowedDomains: [api.search.example]}
`

const bound = `
sidecar:
  config:
    broker: {bindings: [{name: a, tools: [search, mail], targets: [api.search.example], static: {file: /etc/toolgate/secrets/a}}, {name: b, tools: [mail], targets: [x.example], static: {file: /etc/toolgate/secrets/b}}]}
    intercept: {targets: [api.search.example]}
    limits: {drain: 20s}
    tracing: {endpoint: "https://traces.example:4318"}
    log: {payloads: true}
    audit:
      output: /var/lib/toolgate/records.jsonl
      rotate: {maxBytes: 4194304, keep: 5}
      capture: {dir: /var/lib/toolgate/captures, tools: [search, mail]}
`

// TestPolicyIsTheInjectors: a policy gives a sidecar the config, and a tool the variables, that the injector would give.
func TestPolicyIsTheInjectors(t *testing.T) {
	tool := "manifests: {search: " + quoted(searching) + "}\nkillSwitch: {enabled: false}\n" + bound
	text, err := render(t, "-f", values(t, tool))
	if err != nil {
		t.Fatal(text)
	}
	s := injectorSettings(t, text)
	bare := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "tool", Image: "x"}}}}
	bare.Annotations = map[string]string{"toolgate/tool": "search"}
	injected, err := pod.Mutate(bare, pod.Namespace{Name: "tools"}, s, func(string) ([]byte, error) { return []byte(searching), nil })
	if err != nil {
		t.Fatal(err)
	}
	text, err = render(t, "-f", values(t, "injection: {mode: policy}\n"+tool))
	if err != nil {
		t.Fatal(text)
	}
	var expression string
	var variables []corev1.EnvVar
	for _, o := range objects(t, text) {
		if o.kind() == "MutatingAdmissionPolicy" {
			expression = o.list("spec", "mutations")[0].text("jsonPatch", "expression")
			if err := json.Unmarshal([]byte(o.list("spec", "variables")[2].text("expression")), &variables); err != nil {
				t.Fatal(err)
			}
		}
	}
	sidecar := injected.Pod.Spec.InitContainers[0]
	if found, expected := documents(t, literal(t, expression, "'TOOLGATE_CONFIG', value: ")), documents(t, sidecar.Env[0].Value); !reflect.DeepEqual(found, expected) {
		t.Errorf("the policy's config is\n%v\nexpected the injector's\n%v", found, expected)
	}
	if !reflect.DeepEqual(variables, injected.Pod.Spec.Containers[0].Env) {
		t.Errorf("the policy's variables are\n%v\nexpected the injector's\n%v", variables, injected.Pod.Spec.Containers[0].Env)
	}
	for _, e := range sidecar.Env {
		if !strings.Contains(expression, "name: '"+e.Name+"'") {
			t.Errorf("the policy's sidecar lacks %s", e.Name)
		}
	}
	for _, m := range append(sidecar.VolumeMounts, injected.Pod.Spec.Containers[0].VolumeMounts...) {
		if !strings.Contains(expression, "name: '"+m.Name+"', mountPath: '"+m.MountPath+"'") {
			t.Errorf("the policy lacks the mount %s", m.MountPath)
		}
	}
}

// literal is the JSON string that follows a mark.
func literal(t *testing.T, text, mark string) string {
	t.Helper()
	_, after, _ := strings.Cut(text, mark)
	var s string
	if err := json.NewDecoder(strings.NewReader(after)).Decode(&s); err != nil {
		t.Fatalf("after %q: %v", mark, err)
	}
	return s
}

// documents are those of a config, without regard to their form.
func documents(t *testing.T, text string) []any {
	t.Helper()
	var all []any
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		all = append(all, v)
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
