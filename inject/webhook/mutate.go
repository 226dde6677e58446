package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

// ErrNoNamespace is what Options.Namespace returns for a namespace that does not exist.
var ErrNoNamespace = errors.New("the namespace does not exist")

var podKind = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
var podResource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// mutate decides about the creation of a pod.
func (h *Handler) mutate(ctx context.Context, req *admissionv1.AdmissionRequest) answer {
	if req.Kind != podKind || req.Resource != podResource || req.SubResource != "" || req.Operation != admissionv1.Create {
		a := failed(Misdirected, nil, "found %s, expected CREATE of v1 Pod: the webhook configuration asks too much", asked(req))
		a.code = http.StatusBadRequest
		return a
	}
	inForce := h.options.Settings()
	p, unknown, a := readPod(req, inForce.UnknownPodFields)
	if p == nil {
		return a
	}
	namespace, err := h.options.Namespace(ctx, req.Namespace)
	if errors.Is(err, ErrNoNamespace) {
		return refused(NoNamespace, http.StatusForbidden, fmt.Sprintf("toolgate: the namespace %q does not exist", req.Namespace))
	}
	if err != nil {
		return failed(NamespaceLookup, err, "namespace %q could not be read; try again", req.Namespace)
	}
	result, err := pod.Mutate(p, namespace, inForce, h.options.Manifest)
	if refusal, ok := errors.AsType[*pod.Refusal](err); ok {
		return refused(Reason(refusal.Reason), refusalCode(refusal.Reason), refusal.Message+" ("+who(p, req)+")")
	}
	if err != nil {
		return failed(Internal, err, "the injector failed on %s; its log says why", who(p, req))
	}
	a = answer{result: Unchanged, warnings: append(notKnown(unknown), result.Warnings...)}
	if len(unknown) > 0 {
		a.reason = UnknownField
	}
	if !result.Changed {
		return a
	}
	a.result = Injected
	if a.patch, err = describe(req.Object.Raw, result.Pod, len(unknown)); err != nil {
		return failed(Internal, err, "the injector could not describe its change of %s", who(p, req))
	}
	return a
}

// describe returns the patch that makes mutated of raw, which has some fields that this version does not know.
func describe(raw []byte, mutated *corev1.Pod, unknown int) ([]byte, error) {
	var text []byte
	var err error
	if unknown > 0 {
		text, err = withUnknown(raw, mutated, unknown)
	} else {
		text, err = json.Marshal(mutated)
	}
	if err != nil {
		return nil, err
	}
	return makePatch(raw, text)
}

// notKnown warns of fields that are let through unseen.
func notKnown(strict []error) []string {
	var out []string
	for _, err := range strict {
		out = append(out, fmt.Sprintf("toolgate: found %v, which this version of Toolgate does not know: it stays, and nobody has checked that it opens no way past the sidecar", err))
	}
	return out
}

func asked(req *admissionv1.AdmissionRequest) string {
	resource := req.Resource.Resource
	if req.SubResource != "" {
		resource += "/" + req.SubResource
	}
	return fmt.Sprintf("%s of %s %s (%s)", req.Operation, metav1.GroupVersion{Group: req.Kind.Group, Version: req.Kind.Version}, req.Kind.Kind, resource)
}

// readPod reads the pod as strictly as the API server does: keys in their case, each once, all known. A field that this version does
// not know could open a way out that the checks do not see, and is refused if the settings do not let it through; unknown has one error for
// each of those.
func readPod(req *admissionv1.AdmissionRequest, fields settings.UnknownFields) (_ *corev1.Pod, unknown []error, _ answer) {
	p := &corev1.Pod{}
	strict, err := sigsjson.UnmarshalStrict(req.Object.Raw, p)
	if err != nil {
		return nil, nil, refused(Malformed, http.StatusUnprocessableEntity, "toolgate: found a pod that cannot be read, expected one of core/v1")
	}
	if len(strict) > 0 && (fields != settings.WarnUnknown || !onlyUnknown(strict, req.Object.Raw, p)) {
		return nil, nil, refused(UnknownField, http.StatusUnprocessableEntity,
			fmt.Sprintf("toolgate: found %v, expected fields that this version of Toolgate knows, once each: leave it out, or upgrade Toolgate (%s)", strict[0], who(p, req)))
	}
	if p.Kind != "Pod" || p.APIVersion != "v1" {
		return nil, nil, refused(Malformed, http.StatusUnprocessableEntity, "toolgate: found an object that is no v1 Pod, expected one")
	}
	if p.Namespace != "" && p.Namespace != req.Namespace {
		return nil, nil, refused(Malformed, http.StatusUnprocessableEntity,
			fmt.Sprintf("toolgate: found a pod of namespace %q in a request for %q, expected one", p.Namespace, req.Namespace))
	}
	return p, strict, answer{}
}

// who names a pod for people. One that a controller creates has no name yet.
func who(p *corev1.Pod, req *admissionv1.AdmissionRequest) string {
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return "pod of " + o.Kind + " " + o.Name
		}
	}
	switch {
	case p.Name != "":
		return "pod " + p.Name
	case req.Name != "":
		return "pod " + req.Name
	case p.GenerateName != "":
		return "pod " + strings.TrimSuffix(p.GenerateName, "-") + "-…"
	}
	return "pod without a name"
}

// refusalCode is the HTTP status of a refusal: 422 where the pod's text is wrong, 403 where it asks for what is not allowed.
func refusalCode(r pod.Reason) int32 {
	switch r {
	case pod.BadAnnotation, pod.NoTool, pod.UnknownTool, pod.TooLarge:
		return http.StatusUnprocessableEntity
	}
	return http.StatusForbidden
}
