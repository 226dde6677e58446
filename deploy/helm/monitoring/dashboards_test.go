package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// classic is a dashboard of the schema that boardBuilder makes.
//
//lint:ignore SA1019 as for boardBuilder
type classic = dashboard.Dashboard

// expression is one that a dashboard sends to Prometheus.
type expression struct{ where, expr string }

// decode reads a dashboard by Grafana's own types: what is missing, unknown or of another type is an error.
func decode(t *testing.T, name string) classic {
	t.Helper()
	d, wrong := strict([]byte(read(t, filepath.Join(folder, name+".json"))))
	if wrong != "" {
		t.Fatalf("%s: %s", name, wrong)
	}
	return d
}

func strict(text []byte) (d classic, wrong string) {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	if err := d.UnmarshalJSONStrict(text); err != nil {
		wrong = err.Error() // without mistakes it returns an empty list, which is not nil, and leaves out panels
	}
	d = classic{}
	if err := json.Unmarshal(text, &d); err != nil && wrong == "" {
		wrong = err.Error()
	}
	return d, wrong
}

// TestStrictIsStrict: what Grafana does not know is found, also within a panel and its query.
func TestStrictIsStrict(t *testing.T) {
	good := read(t, filepath.Join(folder, "fleet.json"))
	for _, change := range [][2]string{
		{`"schemaVersion": 42`, `"schemaVersion": "42"`},
		{`"schemaVersion": 42,`, ``},
		{`"refresh": "30s"`, `"refesh": "30s"`},
		{`"legendFormat":`, `"legend":`},
		{`"graphMode": "area"`, `"graphMode": 3`},
		{`"displayMode": "list"`, `"dispalyMode": "list"`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if _, wrong := strict([]byte(bad)); bad == good || wrong == "" {
			t.Errorf("%s in place of %s was taken", change[1], change[0])
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

// expressions returns what all dashboards ask, with Grafana's variables filled in.
func expressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for name := range dashboards() {
		d := decode(t, name)
		for _, v := range d.Templating.List {
			if v.Type != dashboard.VariableTypeQuery {
				continue
			}
			m := labelValues.FindStringSubmatch(*v.Query.String)
			if m == nil {
				t.Fatalf("%s: found the query %s, expected label_values(METRIC, LABEL)", name, *v.Query.String)
			}
			all = append(all, expression{name + ", variable " + v.Name, m[1]})
		}
		for _, p := range panels(d) {
			for _, q := range p.Targets {
				expr := query(t, q)
				all = append(all, expression{name + ", " + *p.Title, strings.ReplaceAll(expr, "$__rate_interval", "5m")})
			}
		}
	}
	return all
}

func query(t *testing.T, q variants.Dataquery) string {
	t.Helper()
	switch q := q.(type) {
	case prometheus.Dataquery:
		return q.Expr
	case *prometheus.Dataquery:
		return q.Expr
	}
	t.Fatalf("found a query of type %T, expected one of Prometheus", q)
	return ""
}

func panels(d classic) []dashboard.Panel {
	var all []dashboard.Panel
	for _, p := range d.Panels {
		if p.Panel != nil {
			all = append(all, *p.Panel)
		}
		if p.RowPanel != nil {
			all = append(all, p.RowPanel.Panels...)
		}
	}
	return all
}

// TestDashboardsAreWritten: the files of the chart are what the program writes.
func TestDashboardsAreWritten(t *testing.T) {
	for name, d := range dashboards() {
		want, err := render(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, filepath.Join(folder, name+".json")); got != string(want) {
			t.Errorf("%s.json is not what \"go run .\" writes", name)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(dashboards()) {
		t.Errorf("%s has %d files, expected %d", folder, len(files), len(dashboards()))
	}
}

// TestDashboardQueries: each is PromQL, of metrics and labels that are there.
func TestDashboardQueries(t *testing.T) {
	all := known(t)
	for _, e := range expressions(t) {
		for _, wrong := range unknown(all, e.expr) {
			t.Errorf("%s: %s", e.where, wrong)
		}
	}
}

// TestDashboardVariables: a variable that a query names is defined, and one that is defined is used.
func TestDashboardVariables(t *testing.T) {
	for name := range dashboards() {
		d := decode(t, name)
		text := read(t, filepath.Join(folder, name+".json"))
		defined := map[string]bool{"__rate_interval": true, "__all": true}
		for _, v := range d.Templating.List {
			defined[v.Name] = true
			if !strings.Contains(text, "$"+v.Name) && !strings.Contains(text, "${"+v.Name+"}") {
				t.Errorf("%s: the variable %s is not used", name, v.Name)
			}
		}
		for _, m := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(text, -1) {
			if !defined[m[1]] {
				t.Errorf("%s: the variable %s is not defined", name, m[1])
			}
		}
	}
}

// TestDashboardsArePortable: nothing names a data source or dashboard of one installation.
func TestDashboardsArePortable(t *testing.T) {
	for name := range dashboards() {
		var raw any
		if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, name+".json"))), &raw); err != nil {
			t.Fatal(err)
		}
		top := raw.(map[string]any)
		if top["uid"] != nil || top["id"] != nil {
			t.Errorf("%s: found an id, expected none: it would collide with another's", name)
		}
		walk(raw, func(key string, value any) {
			if key == "uid" && value != "${datasource}" {
				t.Errorf("%s: found uid %v, expected ${datasource}", name, value)
			}
		})
	}
}

func walk(v any, f func(key string, value any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			f(key, value)
			walk(value, f)
		}
	case []any:
		for _, value := range v {
			walk(value, f)
		}
	}
}

// TestPanels: each says what it shows, and none covers another.
func TestPanels(t *testing.T) {
	for name := range dashboards() {
		d := decode(t, name)
		if len(panels(d)) < 8 {
			t.Errorf("%s: found %d panels", name, len(panels(d)))
		}
		taken := map[[2]uint32]string{}
		for _, p := range panels(d) {
			if p.Title == nil || p.Description == nil || len(p.Targets) == 0 {
				t.Fatalf("%s: a panel lacks a title, a description or a query", name)
			}
			g := p.GridPos
			if g == nil || g.X+g.W > 24 {
				t.Fatalf("%s, %s: found place %+v, expected one within 24 columns", name, *p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]uint32{x, y}]; other != "" {
						t.Fatalf("%s: %s covers %s", name, *p.Title, other)
					}
					taken[[2]uint32{x, y}] = *p.Title
				}
			}
		}
	}
}
