package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

// maxReview bounds a request. The API server takes no object larger than 1.5 MiB in etcd, or 3 MiB on its way in.
const maxReview = 3 << 20

// Options are what a Handler asks. None may be nil.
type Options struct {
	// Namespace returns what is known of a namespace, or ErrNoNamespace.
	Namespace func(ctx context.Context, name string) (pod.Namespace, error)
	// Settings returns those in force.
	Settings func() *settings.Settings
	// Manifest returns the text of a tool's manifest. Its error is shown to the pod's author.
	Manifest func(tool string) ([]byte, error)
	// CheckManifest checks the spec of a ToolManifest, as JSON, for the object of that name. Its error is shown to the author.
	CheckManifest func(object string, spec []byte) (warnings []string, err error)
	Metrics       *Metrics
	Log           *slog.Logger
}

// Handler answers admission reviews. Its methods may be called at once.
type Handler struct {
	options Options
	room    *room
}

// New returns a handler.
func New(o Options) *Handler { return &Handler{o, newRoom()} }

// ServeHTTP answers POST /mutate and POST /validate.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/mutate":
		h.review(w, r, "pod", h.mutate)
	case "/validate":
		h.review(w, r, "manifest", h.validate)
	default:
		http.NotFound(w, r)
	}
}

// review reads a review, has it decided and writes the answer. A request that is no review gets an HTTP error, which the API server
// counts as a call that failed: with failurePolicy Fail that denies.
func (h *Handler) review(w http.ResponseWriter, r *http.Request, kind string, decide func(context.Context, *admissionv1.AdmissionRequest) answer) {
	begun := time.Now()
	req, leave, reason, status, err := h.read(r)
	defer leave()
	if err != nil {
		h.unread(w, kind, reason, status, err, begun)
		return
	}
	a := h.contained(r.Context(), req, decide)
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: a.response(req),
	})
	h.options.Metrics.admitted(kind, a.result, a.reason, time.Since(begun))
	h.log(kind, req, &a)
	if err != nil {
		http.Error(w, "toolgate: the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// unread answers a request of which no review was read.
func (h *Handler) unread(w http.ResponseWriter, kind string, reason Reason, status int, err error, begun time.Time) {
	h.options.Metrics.admitted(kind, Failed, reason, time.Since(begun))
	h.options.Log.Warn("admission", "kind", kind, "result", string(Failed), "reason", string(reason), "error", err.Error())
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, "toolgate: "+err.Error(), status)
}

// contained decides. A panic becomes a denial.
func (h *Handler) contained(ctx context.Context, req *admissionv1.AdmissionRequest, decide func(context.Context, *admissionv1.AdmissionRequest) answer) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = failed(Panicked, fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "the injector failed; its log says why")
		}
	}()
	return decide(ctx, req)
}

func (h *Handler) log(kind string, req *admissionv1.AdmissionRequest, a *answer) {
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("kind", kind), slog.String("uid", string(req.UID)), slog.String("namespace", req.Namespace),
		slog.String("name", shorten(req.Name, maxNameBytes)), slog.String("user", req.UserInfo.Username), slog.String("result", string(a.result))}
	if a.reason != "" {
		attrs = append(attrs, slog.String("reason", string(a.reason)))
	}
	if a.message != "" {
		attrs = append(attrs, slog.String("message", a.message))
	}
	if a.result == Failed {
		level = slog.LevelError
		if a.cause != nil {
			attrs = append(attrs, slog.String("error", a.cause.Error()))
		}
	}
	h.options.Log.LogAttrs(context.Background(), level, "admission", attrs...)
}

// read reads an AdmissionReview of version v1, the only one there is since Kubernetes 1.22. The caller calls leave in any case, once the
// review is answered.
func (h *Handler) read(r *http.Request) (req *admissionv1.AdmissionRequest, leave func(), reason Reason, status int, err error) {
	leave = func() {}
	if r.Method != http.MethodPost {
		return nil, leave, BadRequest, http.StatusMethodNotAllowed, fmt.Errorf("found method %.20q, expected POST", r.Method)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, leave, BadRequest, http.StatusUnsupportedMediaType, fmt.Errorf("found content type %.60q, expected application/json", r.Header.Get("Content-Type"))
	}
	body, leave, err := h.room.read(r)
	switch {
	case errors.Is(err, errNoRoom):
		return nil, leave, Overloaded, http.StatusServiceUnavailable, err
	case errors.Is(err, errTooLarge):
		return nil, leave, TooManyBytes, http.StatusRequestEntityTooLarge, err
	case err != nil:
		return nil, leave, BadRequest, http.StatusBadRequest, errors.New("the request broke off")
	}
	req, err = parse(body)
	return req, leave, BadRequest, http.StatusBadRequest, err
}

func parse(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, errors.New("found a body that cannot be read, expected an AdmissionReview")
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("found %.60q of %.60q, expected AdmissionReview of admission.k8s.io/v1", review.Kind, review.APIVersion)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, errors.New("found an AdmissionReview without a request or its uid, expected both")
	}
	return review.Request, nil
}

var errTooLarge = fmt.Errorf("found a request larger than %d bytes, expected a smaller one", maxReview)

// readBody reads at most maxReview bytes.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxReview {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReview+1))
	if err == nil && len(body) > maxReview {
		err = errTooLarge
	}
	return body, err
}
