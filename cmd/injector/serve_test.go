package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/inject/tools"
)

var hooksResource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}

// cluster is a running `injector serve` beside a fake API server.
type cluster struct {
	*testing.T
	client       *fake.FakeDynamicClient
	flags        serveFlags
	hooks, admin string
	log          *lockedBuffer
	stop         func() error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func settingsFor(files, image string) string {
	return fmt.Sprintf("apiVersion: toolgate/v1\nkind: Injector\nsidecarImage: %s\nfenceImage: registry.example/fence:1\n"+
		"killSwitch: {servers: [\"tls://toolgate-killswitch.toolgate.svc:4222\"], publicKeyFile: %s/public-key, caFile: %s/ca.crt, credentialsURL: \"https://toolgate-killswitch.toolgate.svc:15030/credentials\"}\n", image, files, files)
}

func start(t *testing.T) *cluster {
	dir := t.TempDir()
	tool, files := filepath.Join(dir, "tools"), filepath.Join(dir, "files")
	for _, d := range []string{tool, files} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(tool, "orders.yaml"), "name: orders\nversion: \"1\"\negress: {allowedDomains: [api.orders.example]}\n")
	put(t, filepath.Join(dir, "settings.yaml"), settingsFor(files, "registry.example/sidecar:1"))
	hook := func(kind string) *unstructured.Unstructured {
		return parsed(t, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"toolgate-injector","resourceVersion":"1"},
			"webhooks":[{"name":"x.toolgate.dev","clientConfig":{"service":{"name":"toolgate-injector","namespace":"toolgate"}}}]}`)
	}
	c := &cluster{T: t, log: &lockedBuffer{}, client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		tools.Resource: "ToolManifestList", {Version: "v1", Resource: "namespaces"}: "NamespaceList", {Version: "v1", Resource: "secrets"}: "SecretList",
		hooksResource: "MutatingWebhookConfigurationList",
	}, parsed(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"toolgate/inject":"enabled","toolgate/tool":"orders"}}}`),
		hook("MutatingWebhookConfiguration"), hook("ValidatingWebhookConfiguration"))}
	c.flags = serveFlags{settings: filepath.Join(dir, "settings.yaml"), manifests: []string{tool}, files: files, crd: true, listen: "127.0.0.1:0", metricsListen: "127.0.0.1:0",
		release: "toolgate", namespace: "toolgate", webhookConfig: "toolgate-injector", caOverlap: time.Hour}
	if err := c.flags.check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- serve(ctx, &c.flags, c.client, slog.New(slog.NewJSONHandler(c.log, nil)), func(hooks, admin net.Addr) {
			c.hooks, c.admin = "https://"+hooks.String(), "http://"+admin.String()
			close(ready)
		})
	}()
	c.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = c.stop() })
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	c.until("ready", func() bool { code, _ := c.get("/readyz"); return code == http.StatusOK })
	return c
}

func (c *cluster) until(what string, ok func() bool) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			c.Fatalf("not %s in time; the log:\n%s", what, c.log)
		}
	}
}

func (c *cluster) get(path string) (int, string) {
	res, err := http.Get(c.admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// admit asks as the API server does: by the Service's name, trusting the configuration's bundle.
func (c *cluster) admit(pod string) *admissionv1.AdmissionResponse {
	c.Helper()
	u, err := c.client.Resource(hooksResource).Get(context.Background(), "toolgate-injector", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	text, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle")
	bundle, _ := base64.StdEncoding.DecodeString(text)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	web := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "toolgate-injector.toolgate.svc"}}}
	body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"shop","operation":"CREATE","object":` + pod + `}}`
	res, err := web.Post(c.hooks+"/mutate", "application/json", strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var out admissionv1.AdmissionReview
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		c.Fatal(err)
	}
	return out.Response
}

const bare1 = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"t","image":"x"}]}}`

func TestServe(t *testing.T) {
	c := start(t)
	if r := c.admit(bare1); !r.Allowed || !bytes.Contains(r.Patch, []byte("registry.example/sidecar:1")) || !bytes.Contains(r.Patch, []byte("ed25519:")) {
		t.Fatalf("answer %+v %s", r.Result, r.Patch)
	}
	// New settings, all or nothing.
	files := c.flags.files
	put(t, c.flags.settings, settingsFor(files, "registry.example/sidecar:2")+"nonsense: true\n")
	c.until("refused", func() bool { return strings.Contains(c.log.String(), "the old ones stay") })
	if r := c.admit(bare1); !bytes.Contains(r.Patch, []byte("registry.example/sidecar:1")) {
		t.Error("settings with a mistake took effect")
	}
	put(t, c.flags.settings, settingsFor(files, "registry.example/sidecar:2"))
	c.until("reloaded", func() bool { return bytes.Contains(c.admit(bare1).Patch, []byte("registry.example/sidecar:2")) })
	// A tool of the cluster's.
	pod := strings.Replace(bare1, `"name":"p"`, `"name":"p","annotations":{"toolgate/tool":"refunds"}`, 1)
	if r := c.admit(pod); r.Allowed || !strings.Contains(r.Result.Message, "refunds") {
		t.Errorf("a tool that does not exist: %+v", r)
	}
	u := parsed(t, `{"apiVersion":"toolgate.dev/v1alpha1","kind":"ToolManifest","metadata":{"name":"refunds"},"spec":{"name":"refunds","version":"1","egress":{"allowedDomains":[]}}}`)
	if _, err := c.client.Resource(tools.Resource).Create(context.Background(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("known", func() bool { return c.admit(pod).Allowed })
	_, metrics := c.get("/metrics")
	if os.Getenv("GOGC") == "" && !strings.Contains(metrics, "\ngo_gc_gogc_percent 400\n") {
		t.Error("the collector runs as often as by default")
	}
	for _, want := range []string{
		`toolgate_injector_admissions_total{reason="unknown_tool",result="refused"}`, `toolgate_injector_admissions_total{reason="",result="injected"}`,
		`toolgate_injector_settings_reloads_total{result="error"} `, `toolgate_injector_certificate_expiry_timestamp_seconds{certificate="toolgate-injector-tls"}`,
		`toolgate_injector_manifests{source="cluster",state="accepted"} 1`, `toolgate_injector_certificate_syncs_total{result="error"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if err := c.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestNewNamespace: a namespace that the watch has not brought is asked for.
func TestNewNamespace(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), parsed(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"new","labels":{"a":"b"},"annotations":{"toolgate/allowed-tools":"a"}}}`))
	n := newNamespaces(client) // it does not run
	if ns, err := n.get(context.Background(), "new"); err != nil || ns.Name != "new" || ns.Labels["a"] != "b" || ns.Annotations["toolgate/allowed-tools"] != "a" {
		t.Errorf("%v %v", ns, err)
	}
	if _, err := n.get(context.Background(), "none"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestServeFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"serve", cli.ExitUsage, "settings"},
		{"serve --settings x", cli.ExitUsage, "POD_NAMESPACE"},
		{"serve --settings x --namespace n", cli.ExitWrong, "--kubeconfig"},
		{"serve --settings x --namespace n --kubeconfig gone", cli.ExitWrong, "--kubeconfig"},
		{"serve --settings x --cert-dir d --webhook-config w", cli.ExitUsage, "--cert-dir beside --webhook-config"},
		{"serve --settings x --namespace n --shutdown-delay -1s", cli.ExitUsage, "negative"},
		{"serve x --settings x", cli.ExitUsage, "flags only"},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.args), strings.NewReader(""), &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s; expected %d, …%s…", c.args, code, &errs, c.code, c.want)
		}
	}
}
