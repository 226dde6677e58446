package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var manifestKind = metav1.GroupVersionKind{Group: "toolgate.dev", Version: "v1alpha1", Kind: "ToolManifest"}

// validate decides about the creation or the change of a ToolManifest.
func (h *Handler) validate(_ context.Context, req *admissionv1.AdmissionRequest) answer {
	if req.Kind != manifestKind || req.SubResource != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		a := failed(Misdirected, nil, "found %s, expected CREATE or UPDATE of %s: the webhook configuration asks too much", asked(req), "toolgate.dev/v1alpha1 ToolManifest")
		a.code = http.StatusBadRequest
		return a
	}
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(req.Object.Raw, &object); err != nil {
		return refused(Malformed, http.StatusUnprocessableEntity, "toolgate: found an object that cannot be read, expected a ToolManifest")
	}
	warnings, err := h.options.CheckManifest(object.Metadata.Name, object.Spec)
	if err != nil {
		return refused(BadManifest, http.StatusUnprocessableEntity, "toolgate: "+err.Error())
	}
	return answer{result: Accepted, warnings: warnings}
}
