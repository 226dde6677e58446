package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

//go:embed pages static
var files embed.FS

// version is part of the static files' addresses, so that browsers may keep them until they change.
var version = func() string {
	sum := sha256.New()
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(name)
		sum.Write(b)
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

func static() http.Handler {
	served := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		served.ServeHTTP(w, r)
	})
}

// pages are the templates: each page with the frame around it.
var pages = func() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(template.FuncMap{
		"version": func() string { return version }, "time": stamp, "ago": ago, "place": place, "fields": given, "plural": plural,
		"took": func(d time.Duration) string { return d.Round(time.Millisecond).String() },
		"word": confirmation, "until": until, "usage": func(head, field string, acts bool, list []central.Usage) usageTable {
			return usageTable{head, field, acts, list}
		},
	}).ParseFS(files, "pages/frame.html"))
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		panic(err) // a bad pattern
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		if base := strings.TrimSuffix(path.Base(name), ".html"); base != "frame" {
			all[base] = template.Must(template.Must(frame.Clone()).ParseFS(files, name))
		}
	}
	return all
}()

// usageTable is a table of tools or tenants, each with a way to stop it.
type usageTable struct {
	Head, Field string
	Acts        bool
	List        []central.Usage
}

// page is what every template gets.
type page struct {
	Title   string
	At      string // which entry of the navigation this is
	Who     *central.Principal
	Ends    time.Time // of the session
	Query   string    // in the search box
	Alarms  []central.Alarm
	Problem *api.Problem // what was refused
	Refresh int          // seconds after which a browser without script loads the page again; 0: never
	Body    any
}

// Acts reports whether who looks may stop things.
func (p *page) Acts() bool { return p.Who != nil && p.Who.May(central.Responder) }

// show writes a page for somebody who is logged in.
func (c *Console) show(v *visit, status int, name string, p page) error {
	p.Who, p.Ends, p.Alarms = &v.who, v.ends, c.Service.Alarms()
	return c.write(v.w, status, name, &p)
}

func (c *Console) write(w http.ResponseWriter, status int, name string, p *page) error {
	var b bytes.Buffer // so that a failing template leaves no half page
	if err := pages[name].ExecuteTemplate(&b, "frame", p); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
	return nil
}

// fail writes a refusal as a page.
func (c *Console) fail(w http.ResponseWriter, v *visit, err error) {
	problem := api.ProblemOf(err)
	if problem.Code == api.Internal {
		c.Log.Error("console", "error", err)
	}
	p := page{Title: problem.Title, Problem: &problem}
	if v != nil {
		p.Who, p.Ends = &v.who, v.ends
	}
	if err := c.write(w, problem.Status, "problem", &p); err != nil {
		c.Log.Error("console", "error", err)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ago says a time in the past in one unit.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

func until(t time.Time) string {
	if t.IsZero() {
		return "until restored"
	}
	return "until " + stamp(t)
}

func place(namespace, pod, instance string) string {
	switch {
	case pod == "":
		return instance
	case namespace == "":
		return pod
	}
	return namespace + "/" + pod
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// given are the fields of a selector that have values.
func given(s *ledger.Selector) []field {
	if s == nil {
		return nil
	}
	if s.All {
		return []field{{Name: "all", Label: "everything"}}
	}
	var some []field
	for _, f := range fields(s) {
		if len(f.Values) > 0 {
			some = append(some, f)
		}
	}
	return some
}
