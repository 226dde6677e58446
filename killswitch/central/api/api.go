package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"time"

	jsonx "github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// API is the HTTP side of a Service.
type API struct {
	Service *central.Service
	Auth    Authenticator
	Log     *slog.Logger
}

// maxBody bounds a request's body; an import's is maxImport.
const (
	maxBody   = 128 << 10
	maxImport = 1 << 30
)

// Handler returns the routes.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, f func(*http.Request, central.Principal) (any, error)) {
		mux.HandleFunc("GET "+path, a.answer(http.StatusOK, f))
	}
	get("/v1/overview", func(_ *http.Request, p central.Principal) (any, error) { return a.Service.Overview(p) })
	get("/v1/revocations", func(_ *http.Request, p central.Principal) (any, error) { return a.Service.List(p) })
	get("/v1/proposals", func(_ *http.Request, p central.Principal) (any, error) { return a.Service.Proposals(p) })
	get("/v1/sidecars", func(_ *http.Request, p central.Principal) (any, error) { return a.Service.Roster(p) })
	get("/v1/history", a.history)
	get("/v1/revisions/{revision}/progress", a.progress)
	mux.HandleFunc("GET /v1/export", a.export)
	mux.HandleFunc("GET /v1/watch", a.Watch)
	post := func(path string, f func(*http.Request, central.Principal) (any, error)) {
		mux.HandleFunc("POST "+path, a.answer(http.StatusOK, f))
	}
	post("/v1/revocations", a.revoke)
	post("/v1/revocations/{id}/restore", a.restore)
	post("/v1/preview", a.preview)
	post("/v1/proposals/{revision}/approve", a.approve)
	post("/v1/proposals/{revision}/decline", a.decline)
	post("/v1/drills", a.drill)
	mux.HandleFunc("POST /v1/import", a.importLog)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Service.Registry(), promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.ready)
	// Bearer tokens are proof against forged requests of other sites already; sessions in cookies, which may come, are not.
	return headers(http.NewCrossOriginProtection().Handler(mux))
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// ready says in plain words why not. It needs no token, so that it names no ids.
func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.Service.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// answer authenticates, calls f and writes what it returned.
func (a *API) answer(status int, f func(*http.Request, central.Principal) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := a.Auth.Authenticate(r)
		if err != nil {
			fail(w, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		v, err := f(r, p)
		if err != nil {
			a.Log.Info("refused", "method", r.Method, "route", r.Pattern, "principal", p.Name, "error", err)
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
}

// read decodes a body strictly: unknown and doubled members and trailing bytes are refused.
func read(r *http.Request, into any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &central.Error{Code: MediaType, Text: "the body must be application/json"}
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := jsonx.Unmarshal(b, into, jsonx.RejectUnknownMembers(true)); err != nil {
		return &central.Error{Code: central.Invalid, Text: "the body: " + err.Error()}
	}
	return nil
}

// number reads a revision or another count.
func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return 0, &central.Error{Code: central.Invalid, Text: "found no whole number where one is expected"}
	}
	return n, nil
}

func queryNumber(r *http.Request, name string) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	return number(text)
}

func (a *API) revoke(r *http.Request, p central.Principal) (any, error) {
	var q central.Request
	if err := read(r, &q); err != nil {
		return nil, err
	}
	return a.Service.Revoke(r.Context(), p, q)
}

func (a *API) restore(r *http.Request, p central.Principal) (any, error) {
	var why central.Reason
	if err := read(r, &why); err != nil {
		return nil, err
	}
	return a.Service.Restore(r.Context(), p, r.PathValue("id"), why)
}

func (a *API) preview(r *http.Request, p central.Principal) (any, error) {
	var q struct {
		Selector ledger.Selector `json:"selector"`
	}
	if err := read(r, &q); err != nil {
		return nil, err
	}
	return a.Service.Preview(r.Context(), p, q.Selector)
}

func (a *API) approve(r *http.Request, p central.Principal) (any, error) {
	revision, err := number(r.PathValue("revision"))
	if err != nil {
		return nil, err
	}
	var q struct {
		Reason string `json:"reason,omitempty"`
	}
	if err := read(r, &q); err != nil {
		return nil, err
	}
	return a.Service.Approve(r.Context(), p, revision, q.Reason)
}

func (a *API) decline(r *http.Request, p central.Principal) (any, error) {
	revision, err := number(r.PathValue("revision"))
	if err != nil {
		return nil, err
	}
	var why central.Reason
	if err := read(r, &why); err != nil {
		return nil, err
	}
	return a.Service.Decline(r.Context(), p, revision, why)
}

func (a *API) drill(r *http.Request, p central.Principal) (any, error) {
	var q struct {
		ID string `json:"id,omitempty"`
		central.Reason
	}
	if err := read(r, &q); err != nil {
		return nil, err
	}
	return a.Service.Drill(r.Context(), p, q.ID, q.Reason)
}

func (a *API) history(r *http.Request, p central.Principal) (any, error) {
	before, err := queryNumber(r, "before")
	if err != nil {
		return nil, err
	}
	limit, err := queryNumber(r, "limit")
	if err != nil {
		return nil, err
	}
	return a.Service.History(p, before, int(min(limit, central.MaxPage)), r.URL.Query().Get("id"))
}

// maxWait bounds how long a request for progress is held.
const maxWait = 30 * time.Second

// progress answers at once, or with wait=1 as soon as more than acks= have acknowledged.
func (a *API) progress(r *http.Request, p central.Principal) (any, error) {
	revision, err := number(r.PathValue("revision"))
	if err != nil {
		return nil, err
	}
	known, err := queryNumber(r, "acks")
	if err != nil {
		return nil, err
	}
	if r.URL.Query().Get("wait") == "" {
		return a.Service.Progress(p, revision)
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	return a.Service.Wait(ctx, p, revision, int(known))
}
