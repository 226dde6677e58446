package webhook

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// patched applies a response's patch to what was asked about.
func patched(t testing.TB, object []byte, r *admissionv1.AdmissionResponse) *corev1.Pod {
	t.Helper()
	if len(r.Patch) > 0 {
		p, err := jsonpatch.DecodePatch(r.Patch)
		if err != nil {
			t.Fatalf("patch %s: %v", r.Patch, err)
		}
		if object, err = p.Apply(object); err != nil {
			t.Fatalf("patch %s of %s: %v", r.Patch, object, err)
		}
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// guarded reports whether a pod has the sidecar, as a native one that runs for as long as the pod.
func guarded(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == "toolgate" && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways &&
			c.Image == "registry.example/toolgate/sidecar:1.0.0"
	})
}

func TestInjects(t *testing.T) {
	l := newLab(t)
	r, _ := l.post("/mutate", review(podText))
	if !r.Allowed || r.PatchType == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch || r.UID != "705ab4f5-6393-11e8-b7cc-42010a800002" {
		t.Fatalf("answer %+v", r)
	}
	p := patched(t, []byte(podText), r)
	if !guarded(p) {
		t.Errorf("no sidecar: %+v", p.Spec.InitContainers)
	}
	if p.Spec.Containers[0].Env[0].Value != "<&>" || p.Spec.ServiceAccountName != "default" {
		t.Errorf("what the author wrote was changed: %+v", p.Spec.Containers[0])
	}
	again, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := l.post("/mutate", review(string(again))); !r.Allowed || len(r.Patch) > 0 || r.AuditAnnotations["result"] != string(Unchanged) {
		t.Errorf("the second time: %s", r.Patch)
	}
}

var pods = `{"group":"","version":"v1","resource":"pods"}`

// TestNasty: whatever is odd about a review or its pod, it is denied, and the answer says what is wrong.
func TestNasty(t *testing.T) {
	kind := `{"group":"","version":"v1","kind":"Pod"}`
	replace := func(old, new string) string {
		if !strings.Contains(podText, old) {
			t.Fatalf("the pod has no %s", old)
		}
		return strings.Replace(podText, old, new, 1)
	}
	for name, c := range map[string]struct {
		body    []byte
		code    int32
		reason  string
		message string
	}{
		"unknown tool":       {review(replace(`"toolgate/tool":"orders"`, `"toolgate/tool":"other"`)), 422, "unknown_tool", "no manifest of this name"},
		"host network":       {review(replace(`"spec":{`, `"spec":{"hostNetwork":true,`)), 403, "host_namespace", "hostNetwork"},
		"typo in annotation": {review(replace(`"toolgate/tool"`, `"toolgate/toool"`)), 422, "bad_annotation", "toolgate/toool"},
		"unknown field":      {review(replace(`"spec":{`, `"spec":{"hostWires":true,`)), 422, "unknown_field", "spec.hostWires"},
		"unknown field deep": {review(replace(`"resources":{}`, `"resources":{},"superPowers":1`)), 422, "unknown_field", "superPowers"},
		"field twice":        {review(replace(`"spec":{`, `"spec":{"hostNetwork":false,"hostNetwork":true,`)), 422, "unknown_field", "hostNetwork"},
		"key in other case":  {review(replace(`"spec":{`, `"spec":{"HostNetwork":true,`)), 422, "unknown_field", "HostNetwork"},
		"two specs":          {review(replace(`"status":{}`, `"spec":{"containers":[]}`)), 422, "unknown_field", "spec"},
		"wrong type":         {review(replace(`"containers":[`, `"containers":["x",`)), 422, "malformed", "cannot be read"},
		"no object":          {review(`null`), 422, "malformed", "cannot be read"},
		"a list":             {review(`[]`), 422, "malformed", "cannot be read"},
		"other object":       {review(replace(`"kind":"Pod"`, `"kind":"Binding"`)), 422, "malformed", "no v1 Pod"},
		"other namespace":    {review(replace(`"namespace":"shop"`, `"namespace":"kube-system"`)), 422, "malformed", "kube-system"},
		"no such namespace":  {reviewOf("gone", "CREATE", kind, pods, replace(`"namespace":"shop",`, ``)), 403, "no_namespace", "does not exist"},
		"namespace unknown":  {reviewOf("down", "CREATE", kind, pods, replace(`"namespace":"shop",`, ``)), 500, "namespace_lookup", "could not be read"},
		"update":             {reviewOf("shop", "UPDATE", kind, pods, podText), 400, "misdirected", "UPDATE"},
		"deployment":         {reviewOf("shop", "CREATE", `{"group":"apps","version":"v1","kind":"Deployment"}`, `{"group":"apps","version":"v1","resource":"deployments"}`, podText), 400, "misdirected", "Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newLab(t).post("/mutate", c.body)
			if r == nil {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if r.Allowed || len(r.Patch) > 0 || r.Result == nil {
				t.Fatalf("it was let through: %+v", r)
			}
			if r.Result.Code != c.code || r.AuditAnnotations["reason"] != c.reason || !strings.Contains(r.Result.Message, c.message) || !strings.HasPrefix(r.Result.Message, "toolgate: ") {
				t.Errorf("answer %d %s %q, expected %d %s …%s…", r.Result.Code, r.AuditAnnotations["reason"], r.Result.Message, c.code, c.reason, c.message)
			}
			if strings.Contains(r.Result.Message, "10.0.0.1") {
				t.Errorf("the message shows the cause: %s", r.Result.Message)
			}
		})
	}
}

// TestSubresource: the request of a subresource of a pod is none of ours.
func TestSubresource(t *testing.T) {
	body := strings.Replace(string(review(podText)), `"operation"`, `"subResource":"ephemeralcontainers","operation"`, 1)
	if r, _ := newLab(t).post("/mutate", []byte(body)); r.Allowed || !strings.Contains(r.Result.Message, "pods/ephemeralcontainers") {
		t.Errorf("answer %+v", r)
	}
}

// TestBadRequests: what is no review at all gets an HTTP error, which the API server takes for a failure.
func TestBadRequests(t *testing.T) {
	good := string(review(podText))
	for name, c := range map[string]struct {
		method, contentType, body string
		status                    int
	}{
		"get":          {"GET", "application/json", good, 405},
		"yaml":         {"POST", "application/yaml", good, 415},
		"no type":      {"POST", "", good, 415},
		"empty":        {"POST", "application/json", "", 400},
		"cut":          {"POST", "application/json", good[:len(good)-1], 400},
		"trailing":     {"POST", "application/json", good + "{}", 400},
		"null":         {"POST", "application/json", "null", 400},
		"v1beta1":      {"POST", "application/json", strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), 400},
		"other kind":   {"POST", "application/json", strings.Replace(good, `"AdmissionReview"`, `"TokenReview"`, 1), 400},
		"no request":   {"POST", "application/json", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, 400},
		"no uid":       {"POST", "application/json", strings.Replace(good, `"uid":"705ab4f5-6393-11e8-b7cc-42010a800002",`, "", 1), 400},
		"upper case":   {"POST", "application/json", strings.Replace(good, `"request"`, `"Request"`, 1), 400},
		"3 MiB and 1":  {"POST", "application/json", good + strings.Repeat(" ", maxReview-len(good)+1), 413},
		"deep nesting": {"POST", "application/json", strings.Replace(good, podText, strings.Repeat("[", 1<<20), 1), 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/mutate", strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.contentType)
			r.ContentLength = -1 // the bound holds for what comes, not for what was announced
			w := httptest.NewRecorder()
			newLab(t).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
	exact := good + strings.Repeat(" ", maxReview-len(good))
	if r, w := newLab(t).post("/mutate", []byte(exact)); r == nil || !r.Allowed {
		t.Errorf("3 MiB: status %d", w.Code)
	}
}

// TestPanicDenies: a panic is contained, denied and logged, with nothing of it in the answer.
func TestPanicDenies(t *testing.T) {
	l := newLab(t)
	l.manifests = func(string) ([]byte, error) { panic("the roof is on fire") }
	r, _ := l.post("/mutate", review(podText))
	if r.Allowed || r.Result.Code != 500 || strings.Contains(r.Result.Message, "roof") {
		t.Errorf("answer %+v", r)
	}
	if !strings.Contains(l.log.String(), "roof") {
		t.Error("the log does not say what happened")
	}
}

// TestNamesTheOwner: a pod that a controller creates has no name; the refusal, which appears in the controller's events, says whose it is.
func TestNamesTheOwner(t *testing.T) {
	l := newLab(t)
	r, _ := l.post("/mutate", review(strings.Replace(podText, `"spec":{`, `"spec":{"hostNetwork":true,`, 1)))
	if !strings.Contains(r.Result.Message, "(pod of ReplicaSet orders-7d5)") {
		t.Error(r.Result.Message)
	}
}

func TestValidate(t *testing.T) {
	l := newLab(t)
	kind, resource := `{"group":"toolgate.dev","version":"v1alpha1","kind":"ToolManifest"}`, `{"group":"toolgate.dev","version":"v1alpha1","resource":"toolmanifests"}`
	good := `{"metadata":{"name":"orders"},"spec":{"name":"orders","version":"1"}}`
	for _, op := range []string{"CREATE", "UPDATE"} {
		if r, _ := l.post("/validate", reviewOf("", op, kind, resource, good)); !r.Allowed || len(r.Warnings) != 1 {
			t.Errorf("%s: %+v", op, r)
		}
	}
	if r, _ := l.post("/validate", reviewOf("", "CREATE", kind, resource, `{"metadata":{"name":"orders"},"spec":{}}`)); r.Allowed || r.Result.Code != 422 || !strings.Contains(r.Result.Message, "version") {
		t.Errorf("%+v", r)
	}
	if r, _ := l.post("/validate", review(podText)); r.Allowed {
		t.Error("a pod passes as a manifest")
	}
	if _, w := l.post("/elsewhere", review(podText)); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	long := bounded(slices.Repeat([]string{strings.Repeat("é", 300) + "\n"}, 40))
	if len(long) != maxWarnings || !strings.Contains(long[maxWarnings-1], "29 more") {
		t.Errorf("%d warnings, the last is %q", len(long), long[len(long)-1])
	}
	total := 0
	for _, w := range long {
		total += len(w)
		if len(w) > maxWarningBytes || strings.ContainsRune(w, '\n') {
			t.Errorf("%d bytes: %q", len(w), w)
		}
	}
	if total > 4096 {
		t.Errorf("%d bytes in all", total)
	}
}

// TestLongNames: names are checked after the webhooks, so one of a megabyte comes here; neither the answer nor the log repeats it whole.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, old := range map[string]string{"container": `"containers":[{"name":"`, "pod": `"metadata":{"generateName":"`} {
		if !strings.Contains(podText, old) {
			t.Fatalf("the pod has no %s", old)
		}
		text := strings.Replace(podText, old, old+long, 1)
		text = strings.Replace(text, `"spec":{`, `"spec":{"hostNetwork":true,`, 1)
		if name == "container" {
			text = strings.Replace(text, `"toolgate/tool":"orders"`, `"toolgate/tools":"nobody=orders"`, 1)
		}
		l := newLab(t)
		r, _ := l.post("/mutate", review(text))
		if r == nil || r.Allowed || len(r.Result.Message) > 4096 {
			t.Errorf("%s: an answer of %d bytes", name, len(r.Result.Message))
		}
		if l.log.Len() > 8192 {
			t.Errorf("%s: a log of %d bytes", name, l.log.Len())
		}
	}
}

// TestNamespaceAllows: the annotation of the pod's namespace reaches the decision.
func TestNamespaceAllows(t *testing.T) {
	l := newLab(t)
	for list, allowed := range map[string]bool{"orders": true, "search": false} {
		l.annotations = map[string]string{"toolgate/allowed-tools": list}
		r, _ := l.post("/mutate", review(podText))
		if r.Allowed != allowed || !allowed && (r.Result.Code != http.StatusForbidden || r.AuditAnnotations["reason"] != "forbidden_tool") {
			t.Errorf("%s: answer %+v", list, r)
		}
	}
}
