package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"github.com/toolgate/toolgate/config"
)

func manifest(name string) string {
	return fmt.Sprintf("name: %s\nversion: \"1\"\nowner: shop\nrisk: low\negress: {allowedDomains: [api.%s.example]}\n", name, name)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFolders(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, one, "a.yaml", manifest("orders"))
	write(t, one, "notes.txt", "not a manifest")
	write(t, one, ".hidden.yaml", manifest("hidden"))
	write(t, two, "b.json", `{"name":"refunds","version":"1","egress":{"allowedDomains":[]}}`)
	write(t, two, "bad.yml", "name: broken\nversion: \"1\"\negress: {allowedDomains: [\"*\"]}\n")
	c := &Catalog{}
	err := c.LoadFolders([]string{one, two})
	if p, ok := err.(config.Problems); !ok || len(p) != 1 || p[0].File != filepath.Join(two, "bad.yml") || p[0].Line != 3 {
		t.Errorf("problems: %v", err)
	}
	for _, tool := range []string{"orders", "refunds"} {
		if text, err := c.Manifest(tool); err != nil || !strings.Contains(string(text), tool) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	for _, tool := range []string{"broken", "hidden", "a", "", "../orders"} {
		_, err := c.Manifest(tool)
		if err == nil {
			t.Fatalf("%q has a manifest", tool)
		}
		for _, want := range []string{"no manifest of this name", "orders, refunds", "1 more cannot be used"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, expected %q in it", tool, err, want)
			}
		}
		// Whoever creates a pod learns nothing of others' mistakes.
		for _, other := range []string{"bad", "expected", "allowedDomains"} {
			if strings.Contains(err.Error(), other) {
				t.Errorf("%q: %v shows %q", tool, err, other)
			}
		}
	}
	if folder, _ := c.Count(); folder != [2]int{2, 1} {
		t.Errorf("count %v", folder)
	}
	if err := c.LoadFolders([]string{filepath.Join(one, "gone")}); err == nil {
		t.Error("a folder that is not there is taken for an empty one")
	}
	if _, err := c.Manifest("orders"); err != nil {
		t.Error("a folder that cannot be read took the manifests away")
	}
}

// TestTwice: of two places for one name neither wins, for it could not be told which one was meant.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("orders"))
	write(t, dir, "b.yaml", manifest("orders"))
	c := &Catalog{}
	if err := c.LoadFolders([]string{dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Manifest("orders"); err == nil || !strings.Contains(err.Error(), "a.yaml") || !strings.Contains(err.Error(), "b.yaml") {
		t.Errorf("error %v", err)
	}
	if folder, _ := c.Count(); folder != [2]int{0, 2} {
		t.Errorf("count %v", folder)
	}
}

// TestMountedConfigMap: the kubelet swaps one symlink.
func TestMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n, tool string) {
		if err := os.Mkdir(filepath.Join(dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, n), "tool.yaml", manifest(tool))
		if err := os.Symlink(n, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "orders")
	if err := os.Symlink("..data/tool.yaml", filepath.Join(dir, "tool.yaml")); err != nil {
		t.Fatal(err)
	}
	c := &Catalog{}
	if err := c.LoadFolders([]string{dir}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	loaded, done := make(chan error, 100), make(chan error, 1)
	go func() {
		done <- c.WatchFolders(ctx, []string{dir}, slog.New(slog.DiscardHandler), func(err error) { loaded <- err })
	}()
	version("..2", "refunds")
	limit := time.After(30 * time.Second)
	for {
		if _, err := c.Manifest("refunds"); err == nil {
			break
		}
		select {
		case <-loaded:
		case <-limit:
			t.Fatal("the change was not seen")
		}
	}
	if _, err := c.Manifest("orders"); err == nil {
		t.Error("the old manifest is still there")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCheck: what kubectl apply says of a bad manifest: the field, and what sidecar check would say.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("orders"))
	c := &Catalog{}
	if err := c.LoadFolders([]string{dir}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spec string
		want []string // in the error; none: accepted
	}{
		"good":              {`{"name":"refunds","version":"1","egress":{"allowedDomains":["api.x.example"]}}`, nil},
		"no version":        {`{"name":"refunds"}`, []string{"spec: ", `"version"`}},
		"unknown key":       {`{"name":"refunds","version":"1","requiredScope":["a"]}`, []string{"spec.requiredScope: ", `did you mean "requiredScopes"?`}},
		"rule not covered":  {`{"name":"refunds","version":"1","egress":{"allowedDomains":["a.example"],"rules":[{"host":"a.example"},{"host":"b.example"}]}}`, []string{"spec.egress.rules[1].host: ", "allowedDomains covers"}},
		"public suffix":     {`{"name":"refunds","version":"1","egress":{"allowedDomains":["a.example","*.com"]}}`, []string{"spec.egress.allowedDomains[1]: ", "*.com"}},
		"number as version": {`{"name":"refunds","version":1}`, []string{"spec.version: ", "quotes"}},
		"two mistakes":      {`{"name":"Refunds","version":""}`, []string{"spec.name: ", "spec.version: "}},
		"taken":             {`{"name":"orders","version":"1"}`, []string{"spec.name: ", "a.yaml"}},
		"no spec":           {``, []string{"spec: "}},
		"null":              {`null`, []string{"spec"}},
		"a list":            {`[]`, []string{"spec"}},
		"a text":            {`"name: refunds\nversion: \"1\""`, []string{"spec"}},
		"huge":              {`{"name":"refunds","version":"1","description":"` + strings.Repeat("x", maxManifestBytes) + `"}`, []string{"256 KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := c.Check("refunds", []byte(test.spec))
			if len(test.want) == 0 {
				if err != nil || len(warnings) == 0 {
					t.Errorf("%v, warnings %q", err, warnings)
				}
				return
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, expected %q in it", err, want)
				}
			}
		})
	}
}

func object(name, spec string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	var v any
	if err := json.Unmarshal([]byte(spec), &v); err != nil {
		panic(err)
	}
	u.Object["spec"] = v
	u.SetAPIVersion("toolgate.dev/v1alpha1")
	u.SetKind("ToolManifest")
	u.SetName(name)
	u.SetGeneration(3)
	return u
}

// accepted returns an object's condition once it is written for its present generation.
func accepted(t *testing.T, client dynamic.Interface, name, want string) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		u, err := client.Resource(Resource).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if len(list) == 1 {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[0].(map[string]any), &found); err != nil {
				t.Fatal(err)
			}
			if found.Reason == want && found.ObservedGeneration == u.GetGeneration() {
				return found
			}
		}
	}
	t.Fatalf("ToolManifest %s: %+v, expected the reason %s", name, found, want)
	return found
}

// written is a log that may be read while it is written.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestCluster(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("orders"))
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{Resource: "ToolManifestList"},
		object("refunds", `{"name":"draft_refund","version":"1","owner":"x","egress":{"allowedDomains":["api.x.example"]}}`),
		object("bad", `{"name":"bad","version":"1","egres":{}}`))
	c := &Catalog{}
	if err := c.LoadFolders([]string{dir}); err != nil {
		t.Fatal(err)
	}
	told := &written{}
	k := c.WatchCluster(client, slog.New(slog.NewTextHandler(told, nil)), nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if got := accepted(t, client, "refunds", "Accepted"); got.Status != metav1.ConditionTrue {
		t.Errorf("%+v", got)
	}
	if text, err := c.Manifest("draft_refund"); err != nil || !json.Valid(text) {
		t.Errorf("%s %v", text, err)
	}
	if got := accepted(t, client, "bad", "Invalid"); got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, "spec.egres: ") {
		t.Errorf("%+v", got)
	}
	if text := told.String(); !strings.Contains(text, "name=bad reason=Invalid") || !strings.Contains(text, "spec.egres: ") || strings.Contains(text, "name=refunds") {
		t.Errorf("the log says %q", text)
	}
	// A second place for a name: neither can be used, and both objects say so.
	if _, err := client.Resource(Resource).Create(ctx, object("refunds-two", `{"name":"draft_refund","version":"2"}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"refunds", "refunds-two"} {
		if got := accepted(t, client, name, "NameTaken"); got.Status != metav1.ConditionFalse {
			t.Errorf("%+v", got)
		}
	}
	if _, err := c.Manifest("draft_refund"); err == nil || !strings.Contains(err.Error(), "ToolManifest refunds-two") {
		t.Errorf("error %v", err)
	}
	if err := client.Resource(Resource).Delete(ctx, "refunds-two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	accepted(t, client, "refunds", "Accepted")
	if _, err := c.Manifest("draft_refund"); err != nil {
		t.Error(err)
	}
	// The object itself is no rival of its own update; a file of the name is one.
	if _, err := c.Check("refunds", []byte(`{"name":"draft_refund","version":"2"}`)); err != nil {
		t.Error(err)
	}
	if _, err := c.Check("orders", []byte(`{"name":"orders","version":"2"}`)); err == nil {
		t.Error("a name that a file defines is accepted")
	}
}

// TestReadsNoOtherFile: a manifest of the cluster's names an input schema; the injector's own files are none of its author's business.
func TestReadsNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "secret.json", "not JSON at all")
	c := &Catalog{}
	warnings, err := c.Check("refunds", []byte(`{"name":"refunds","version":"1","inputSchemaRef":"secret.json"}`))
	if err != nil {
		t.Errorf("the file was read: %v", err)
	}
	if !strings.Contains(strings.Join(warnings, "\n"), "no property name will appear") {
		t.Errorf("warnings %q", warnings)
	}
}
