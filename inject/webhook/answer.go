package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Result is what became of an admission: a closed set, fit for a metric's label.
type Result string

// The results. All but Injected, Unchanged and Accepted deny.
const (
	Failed    Result = "error"     // the injector's fault, or the webhook configuration's
	Refused   Result = "refused"   // the author's to mend
	Injected  Result = "injected"  // a pod, with a patch
	Unchanged Result = "unchanged" // a pod that is injected already
	Accepted  Result = "accepted"  // a ToolManifest
)

// Reason is why an admission failed or was refused, beside those of inject/pod. Only UnknownField can also be of what was let through.
type Reason string

// The reasons. docs/injector.md explains each.
const (
	BadRequest      Reason = "bad_request"      // no AdmissionReview that can be read
	TooManyBytes    Reason = "too_many_bytes"   // a request beyond 3 MiB
	Overloaded      Reason = "overloaded"       // more requests at once than memory is for
	Misdirected     Reason = "misdirected"      // something else than the creation of a pod: the webhook configuration is wrong
	Malformed       Reason = "malformed"        // an object that cannot be read
	UnknownField    Reason = "unknown_field"    // a pod with a field that this version does not know, or one twice
	NoNamespace     Reason = "no_namespace"     // the pod's namespace does not exist
	NamespaceLookup Reason = "namespace_lookup" // the API server did not answer for the namespace
	BadManifest     Reason = "bad_manifest"     // a ToolManifest with a mistake
	Internal        Reason = "internal"         // a fault
	Panicked        Reason = "panic"            // a worse one
)

// answer is a decision on its way into an AdmissionReview. The zero value denies.
type answer struct {
	result   Result
	reason   Reason
	code     int32
	message  string // for whoever created the object; empty when allowed
	cause    error  // for the log alone
	warnings []string
	patch    []byte
}

func failed(reason Reason, cause error, format string, args ...any) answer {
	return answer{result: Failed, reason: reason, code: http.StatusInternalServerError, message: shorten("toolgate: "+fmt.Sprintf(format, args...), maxMessageBytes), cause: cause}
}

func refused(reason Reason, code int32, message string) answer {
	return answer{result: Refused, reason: reason, code: code, message: shorten(message, maxMessageBytes)}
}

func (a *answer) allowed() bool {
	return a.result == Injected || a.result == Unchanged || a.result == Accepted
}

// response is a in the API's form. Only what is allowed carries a patch.
func (a *answer) response(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	r := &admissionv1.AdmissionResponse{UID: req.UID, Allowed: a.allowed(), Warnings: bounded(a.warnings)}
	if !r.Allowed {
		code := a.code
		if code == 0 {
			code = http.StatusInternalServerError
		}
		r.Result = &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: statusReason(code), Message: a.message}
		r.AuditAnnotations = map[string]string{"reason": string(a.reason)}
		return r
	}
	r.AuditAnnotations = map[string]string{"result": string(a.result)}
	if len(a.patch) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		r.Patch, r.PatchType = a.patch, &kind
	}
	return r
}

func statusReason(code int32) metav1.StatusReason {
	switch code {
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	}
	return metav1.StatusReasonInternalError
}

// Bounds on warnings: they travel as HTTP headers, and the API server cuts what is longer than 256 or 4096 in all.
const (
	maxWarnings     = 12
	maxWarningBytes = 256
)

// Bounds on what is repeated of a pod in refusals and in the log: names are as long as a request then, since the API server checks them
// after the webhooks.
const (
	maxMessageBytes = 2048
	maxNameBytes    = 253
)

// bounded keeps warnings to what the API server hands on whole.
func bounded(warnings []string) []string {
	var out []string
	for i, w := range warnings {
		if i == maxWarnings-1 && len(warnings) > maxWarnings {
			return append(out, fmt.Sprintf("toolgate: %d more warnings are not shown", len(warnings)-i))
		}
		out = append(out, shorten(w, maxWarningBytes))
	}
	return out
}

// shorten keeps s to limit bytes of one line.
func shorten(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
