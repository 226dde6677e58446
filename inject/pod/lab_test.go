package pod

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/toolgate/toolgate/inject/settings"
)

var update = flag.Bool("update", false, "write the golden files")

// settingsText is of a company with a control plane, a gateway of no use here, and credentials for two tools.
const settingsText = `
apiVersion: toolgate/v1
kind: Injector
sidecarImage: toolgate/sidecar:1.0
fenceImage: toolgate/fence:1.0
passthrough: [pinned.example, "*.pins.example"]
proxyVariables: {noProxy: [.corp.example]}
sidecarConfig:
  broker:
    bindings:
      - name: search
        tools: [search, mail]
        targets: [api.search.example]
        static: {file: /etc/toolgate/secrets/search}
      - name: other
        tools: [elsewhere]
        targets: [api.elsewhere.example]
        static: {file: /etc/toolgate/secrets/other}
  egress:
    allowPrivate:
      - {prefix: 10.20.0.0/24, ports: [443], tools: [elsewhere]}
  intercept: {targets: [pinned.example, "*.seen.example"]}
  audit: {capture: {dir: /var/lib/toolgate/captures, tools: [elsewhere, mail]}}
`

func testSettings(t testing.TB, text string) *settings.Settings {
	t.Helper()
	s, err := settings.Parse("settings.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// manifests are of the tools that tests may name.
var manifests = map[string]string{
	"search": "name: search\nversion: \"1\"\negress:\n  allowedDomains: [api.search.example]\n  rules:\n    - {host: api.search.example, methods: [GET]}\n",
	"mail":   "---\n# of the mail team\nname: mail\nversion: \"2026-06-17\"\ndescription: costs $(HOME) $$ and $5\negress:\n  allowedDomains: [api.mail.example, api.search.example]\n",
	"fat":    "name: fat\nversion: \"1\"\ndescription: " + strings.Repeat("x", maxConfig) + "\negress: {allowedDomains: []}\n",
	"twin":   "name: twin\nversion: \"1\"\n---\nname: mail\nversion: \"2\"\n",
	"alias":  "name: other\nversion: \"1\"\n",
	"broken": "name: [\n",
}

func manifestOf(tool string) ([]byte, error) {
	m, ok := manifests[tool]
	if !ok {
		return nil, fmt.Errorf("there is no manifest of it")
	}
	return []byte(m), nil
}

func parsePod(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// namespaceOf reads lines "# namespace KEY=VALUE" of a pod's file.
func namespaceOf(text string) Namespace {
	ns := Namespace{Name: "agents", Labels: map[string]string{NamespaceInject: Enabled}}
	for line := range strings.Lines(text) {
		if label, ok := strings.CutPrefix(strings.TrimSpace(line), "# namespace "); ok {
			key, value, _ := strings.Cut(label, "=")
			ns.Labels[key] = value
		}
	}
	return ns
}

func pods(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/pods/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods: %v", err)
	}
	return files
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGolden compares each pod of testdata/pods with what becomes of it, warnings first.
func TestGolden(t *testing.T) {
	s := testSettings(t, settingsText)
	for _, file := range pods(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := read(t, file)
			given := parsePod(t, text)
			before := given.DeepCopy()
			r, err := Mutate(given, namespaceOf(text), s, manifestOf)
			if err != nil {
				t.Fatal(err)
			}
			if !equal(given, before) {
				t.Error("the pod given was changed")
			}
			var out bytes.Buffer
			for _, w := range r.Warnings {
				fmt.Fprintf(&out, "# %s\n", w)
			}
			b, err := yaml.Marshal(r.Pod)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
			golden := filepath.Join("testdata/injected", filepath.Base(file))
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, golden); want != out.String() {
				t.Errorf("%s differs; look, and run go test ./inject/pod -update\n%s", golden, diff(want, out.String()))
			}
		})
	}
}

// diff shows the first line that differs.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(g), len(w))
}
