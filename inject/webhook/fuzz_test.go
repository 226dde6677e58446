package webhook

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	sigsjson "sigs.k8s.io/json"
)

// FuzzReview: whatever is sent, a pod that is allowed has the sidecar once the patch is applied, and a container of the author's that
// was in it still is.
func FuzzReview(f *testing.F) {
	f.Add(review(podText))
	f.Add(review(`{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"toolgate/tool":"orders","toolgate/mode":"transparent"}},"spec":{"containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"i"}]}}`))
	f.Add(review(`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"toolgate/injected":"true"},"annotations":{"toolgate/tool":"orders","toolgate/status":"{}"}},"spec":{"initContainers":[{"name":"toolgate","restartPolicy":"Always"}],"containers":[{"name":"t"}]}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE"}}`))
	l := newLab(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		l.log.Reset()
		r, w := (&lab{TB: t, Handler: l.Handler}).post("/mutate", body)
		if r == nil {
			if w.Code < http.StatusBadRequest {
				t.Fatalf("status %d", w.Code)
			}
			return
		}
		if !r.Allowed {
			if len(r.Patch) > 0 {
				t.Fatal("a patch of what is denied")
			}
			return
		}
		var asked admissionv1.AdmissionReview
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(body, &asked); err != nil {
			t.Fatal(err)
		}
		p := patched(t, asked.Request.Object.Raw, r)
		if !guarded(p) {
			text, _ := json.Marshal(p)
			t.Fatalf("let through without the sidecar: %s", text)
		}
		if len(p.Spec.Containers) == 0 {
			t.Fatal("a pod without a container")
		}
	})
}
