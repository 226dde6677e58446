package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

const settingsText = `
apiVersion: toolgate/v1
kind: Injector
sidecarImage: registry.example/toolgate/sidecar:1.0.0
fenceImage: registry.example/toolgate/fence:1.0.0
`

const manifestText = `name: orders
version: "1"
owner: shop
description: Reads orders.
risk: low
egress: {allowedDomains: [api.orders.example]}
`

// lab is a handler with a namespace "shop" and a tool "orders".
type lab struct {
	settings *settings.Settings
	testing.TB
	*Handler
	log         bytes.Buffer
	annotations map[string]string // of the namespace
	manifests   func(tool string) ([]byte, error)
}

func newLab(t testing.TB) *lab {
	t.Helper()
	s, err := settings.Parse("settings.yaml", []byte(settingsText))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{TB: t, settings: s, manifests: func(tool string) ([]byte, error) {
		if tool != "orders" {
			return nil, errors.New("there is no manifest of this name")
		}
		return []byte(manifestText), nil
	}}
	l.Handler = New(Options{
		Namespace: func(_ context.Context, name string) (pod.Namespace, error) {
			switch name {
			case "shop":
				return pod.Namespace{Name: name, Labels: map[string]string{"toolgate/inject": "enabled"}, Annotations: l.annotations}, nil
			case "down":
				return pod.Namespace{}, errors.New("connection refused to 10.0.0.1")
			}
			return pod.Namespace{}, ErrNoNamespace
		},
		Settings: func() *settings.Settings { return l.settings },
		Manifest: func(tool string) ([]byte, error) { return l.manifests(tool) },
		CheckManifest: func(object string, spec []byte) ([]string, error) {
			if !bytes.Contains(spec, []byte(`"version"`)) {
				return nil, errors.New("spec: found no key \"version\"")
			}
			return []string{"risk is missing, counts as high"}, nil
		},
		Metrics: NewMetrics("test"),
		Log:     slog.New(slog.NewJSONHandler(io.MultiWriter(&l.log), nil)),
	})
	return l
}

const podText = `{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"orders-7d5-","namespace":"shop","annotations":{"toolgate/tool":"orders"},` +
	`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"orders-7d5","uid":"u","controller":true}],"creationTimestamp":null},` +
	`"spec":{"containers":[{"name":"tool","image":"registry.example/orders:1","resources":{},"env":[{"name":"A","value":"<&>"}]}],"serviceAccountName":"default"},"status":{}}`

// review is a request about an object.
func review(object string) []byte {
	return reviewOf("shop", "CREATE", `{"group":"","version":"v1","kind":"Pod"}`, `{"group":"","version":"v1","resource":"pods"}`, object)
}

func reviewOf(namespace, operation, kind, resource, object string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":` + kind +
		`,"resource":` + resource + `,"namespace":"` + namespace + `","operation":"` + operation + `","userInfo":{"username":"u"},"object":` + object + `}}`)
}

// post sends a body to the handler and returns the answer.
func (l *lab) post(path string, body []byte) (*admissionv1.AdmissionResponse, *httptest.ResponseRecorder) {
	l.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, w
	}
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		l.Fatalf("answer %q: %v", w.Body, err)
	}
	return out.Response, w
}
