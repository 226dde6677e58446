package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/login"
)

// Console is the page. All fields but OIDC must be set.
type Console struct {
	Service  *central.Service
	Sessions *login.Sessions
	OIDC     *login.OIDC // nil: people log in with a token of the API
	Secure   bool        // browsers come by HTTPS
	Log      *slog.Logger
}

// Callback is the path that the issuer sends browsers back to.
const Callback = "/login/callback"

// maxForm bounds a form; a selector may have 64 KiB.
const maxForm = 128 << 10

// visit is one request of somebody who is logged in.
type visit struct {
	*http.Request
	w    http.ResponseWriter
	who  central.Principal
	ends time.Time // of the session
}

// Handler returns the routes.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, f := range map[string]func(*visit) error{
		"GET /{$}": c.home, "GET /search": c.search, "GET /sidecars": c.sidecars, "GET /history": c.history,
		"GET /revisions/{revision}": c.revision, "GET /watch": c.watch,
		"GET /stop": c.askStop, "POST /stop": c.stop,
		"GET /restore": c.askRestore, "POST /restore": c.restore,
		"GET /proposal": c.proposal, "POST /approve": c.approve, "POST /decline": c.decline,
		"GET /drill": c.askDrill, "POST /drill": c.drill,
	} {
		mux.HandleFunc(path, c.visited(f))
	}
	mux.HandleFunc("GET /login", c.login)
	mux.HandleFunc("POST /login", c.loginWithToken)
	mux.HandleFunc("GET /login/issuer", c.loginAtIssuer)
	mux.HandleFunc("GET "+Callback, c.loginBack)
	mux.HandleFunc("POST /logout", c.logout)
	mux.Handle("GET /static/", static())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		c.fail(w, nil, &central.Error{Code: central.NotFound, Text: "there is no such page"})
	})
	return c.guard(mux)
}

// policy lets a page load its own style sheet and script, and nothing else; no other site may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// guard sets the headers of every answer and refuses what another site's page makes a browser send.
func (c *Console) guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send "Origin: null" with our own forms
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := foreign.Check(r); err != nil || changes(r) && !c.ours(r) {
			c.Log.Warn("console: a request from elsewhere", "path", r.URL.Path, "origin", r.Header.Get("Origin"))
			c.fail(w, nil, &central.Error{Code: central.Forbidden, Text: "this request comes from another site's page, and was ignored"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// ours reports whether a browser says that the request comes from a page of this origin: scheme, host and port. What says
// nothing is no browser of today, and has no business with a cookie.
func (c *Console) ours(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		scheme := "http://"
		if c.Secure {
			scheme = "https://"
		}
		return origin == scheme+r.Host
	}
	return r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

// visited calls f for who is logged in, and sends everybody else to do so.
func (c *Console) visited(f func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			c.fail(w, nil, &central.Error{Code: central.Invalid, Text: "the form cannot be read"})
			return
		}
		who, ends, ok := c.Sessions.Who(r)
		if !ok {
			if r.URL.Path == "/watch" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "/login?"+url.Values{"next": {comeBack(r)}}.Encode(), http.StatusSeeOther)
			return
		}
		v := &visit{r, w, who, ends}
		if err := f(v); err != nil {
			c.Log.Info("refused", "method", r.Method, "route", r.Pattern, "principal", who.Name, "error", err)
			c.fail(w, v, err)
		}
	}
}

// maxNext bounds the address that a login leads back to, which its cookie holds.
const maxNext = 1500

// comeBack is where a login leads to: the page, with what stood in its form, so that nobody must type it twice while things
// burn. What confirms does not come along.
func comeBack(r *http.Request) string {
	values := r.URL.Query()
	if changes(r) {
		values = url.Values{}
		for name, v := range r.PostForm {
			if name != "confirm" {
				values[name] = v
			}
		}
	}
	path := map[string]string{"/approve": "/proposal", "/decline": "/proposal"}[r.URL.Path]
	if path == "" {
		path = r.URL.Path
	}
	if next := path + "?" + values.Encode(); len(values) > 0 && len(next) <= maxNext {
		return next
	}
	return path
}

// localPath returns next if a browser takes it for a path on this origin, and "/" otherwise: browsers read "\" as "/", and
// "//host" as another host.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.Contains(next, `\`) || len(next) > maxNext {
		return "/"
	}
	return next
}

// watch is the API's stream, until the session ends.
func (c *Console) watch(v *visit) error {
	ctx, cancel := context.WithDeadline(v.Context(), v.ends)
	defer cancel()
	a := &api.API{Service: c.Service, Auth: c.Sessions, Log: c.Log}
	a.Watch(v.w, v.Request.WithContext(ctx))
	return nil
}

// seeOther leads on after a POST.
func (v *visit) seeOther(format string, args ...any) error {
	http.Redirect(v.w, v.Request, fmt.Sprintf(format, args...), http.StatusSeeOther)
	return nil
}
