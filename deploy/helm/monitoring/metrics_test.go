package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// pages have the tables of our metrics. Tests beside the code hold each table and what is registered together.
var pages = []string{"../../../docs/metrics.md", "../../../docs/kill-switch-central.md", "../../../docs/operations.md"}

// foreign metrics are others' own, with the labels that we use of them.
var foreign = map[string][]string{
	// Prometheus
	"up":     {},
	"ALERTS": {"alertname", "alertstate"},
	// client_golang
	"process_resident_memory_bytes": {},
	"process_cpu_seconds_total":     {},
	"process_open_fds":              {},
	"process_max_fds":               {},
	// kube-apiserver
	"apiserver_admission_webhook_rejection_count": {"name", "error_type"},
	"apiserver_admission_webhook_fail_open_count": {"name"},
	// kube-state-metrics
	"kube_namespace_labels":                         {"label_toolgate_inject"},
	"kube_pod_status_phase":                         {"phase"},
	"kube_pod_init_container_info":                  {},
	"kube_pod_init_container_status_ready":          {},
	"kube_pod_init_container_status_restarts_total": {},
	"kube_pod_init_container_resource_limits":       {"resource"},
	"kube_deployment_spec_replicas":                 {"deployment"},
	"kube_deployment_status_replicas_available":     {"deployment"},
	"kube_statefulset_replicas":                     {"statefulset"},
	"kube_statefulset_status_replicas_ready":        {"statefulset"},
}

// target are labels that come from where a metric is scraped.
var target = []string{model.MetricNameLabel, "namespace", "pod", "container", "instance", "job", "le"}

var (
	wideRow   = regexp.MustCompile("(?m)^\\| `(toolgate_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|")
	narrowRow = regexp.MustCompile("(?m)^\\| `(toolgate_[a-z_]+)(?:\\{([a-z_,]*)\\})?` \\| [^|]+ \\|$")
)

// known returns the labels of every metric that may be used: ours by the pages, those of others, those that rules record.
func known(t *testing.T) map[string][]string {
	t.Helper()
	all := maps.Clone(foreign)
	for _, page := range pages {
		text := read(t, page)
		found := 0
		for _, row := range wideRow.FindAllStringSubmatch(text, -1) {
			found++
			all[row[1]] = regexp.MustCompile(`[a-z_]+`).FindAllString(row[3], -1)
			if row[2] == "histogram" {
				all[row[1]+"_bucket"] = all[row[1]]
			}
		}
		for _, row := range narrowRow.FindAllStringSubmatch(text, -1) {
			found++
			all[row[1]] = strings.Split(row[2], ",")
			all[row[1]+"_bucket"] = all[row[1]]
		}
		if found == 0 {
			t.Errorf("%s: found no table of metrics", page)
		}
	}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Record != "" {
				all[r.Record] = []string{"tool", "certificate"}
			}
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unknown says what an expression names that is not there: a metric, or a label of one.
func unknown(known map[string][]string, expr string) []string {
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := v.Name
		has, there := known[name]
		if !there {
			wrong = append(wrong, fmt.Sprintf("there is no metric %q", name))
			return nil
		}
		for _, m := range v.LabelMatchers {
			if !slices.Contains(target, m.Name) && !slices.Contains(has, m.Name) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", name, m.Name))
			}
		}
		return nil
	})
	return wrong
}

// TestMetricsOfRulesExist: a rule on a metric or label that nobody counts would be silent for ever.
func TestMetricsOfRulesExist(t *testing.T) {
	all := known(t)
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			for _, wrong := range unknown(all, r.Expr) {
				t.Errorf("%s %s%s: %s", g.Name, r.Alert, r.Record, wrong)
			}
		}
	}
	for _, bad := range []string{"toolgate_call_total", `toolgate_calls_total{verdict="deny"}`, "sum by (x (", `{job="a"}`} {
		if len(unknown(all, bad)) == 0 {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestForeignMetricsAreUsed: the list of what others must provide is no longer than what is asked of them.
func TestForeignMetricsAreUsed(t *testing.T) {
	var text strings.Builder
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			text.WriteString(r.Expr)
		}
	}
	for _, e := range expressions(t) {
		text.WriteString(e.expr)
	}
	for name := range foreign {
		if !strings.Contains(text.String(), name) {
			t.Errorf("%s is listed and nothing uses it", name)
		}
	}
}

var codeMatcher = regexp.MustCompile(`\bcode(?:=|!=|=~|!~)"([^"]*)"`)

// TestCodesExist: a code that rules and dashboards select is one of the table of denials.
func TestCodesExist(t *testing.T) {
	table := read(t, "../../../docs/denials.md")
	check := func(where, expr string) {
		for _, m := range codeMatcher.FindAllStringSubmatch(expr, -1) {
			for code := range strings.SplitSeq(m[1], "|") {
				if code != "ok" && !strings.Contains(table, "| [`"+code+"`]") {
					t.Errorf("%s: there is no code %q", where, code)
				}
			}
		}
	}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			check(r.Alert+r.Record, r.Expr)
		}
	}
	for _, e := range expressions(t) {
		check(e.where, e.expr)
	}
}

// TestInjectorsTable compares the table of the injector's metrics with the names in its source.
func TestInjectorsTable(t *testing.T) {
	source, err := os.ReadFile("../../../inject/webhook/metrics.go")
	if err != nil {
		t.Skip("the injector's source is not here")
	}
	counted := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:counters|gauges)\("([a-z_]+)"|Subsystem: "injector", Name: "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		counted["toolgate_injector_"+m[1]+m[2]] = true
	}
	documented := map[string]bool{}
	for _, row := range narrowRow.FindAllStringSubmatch(read(t, operationsPage), -1) {
		documented[row[1]] = true
	}
	if !maps.Equal(counted, documented) {
		t.Errorf("%s: found %v, expected what is counted: %v", operationsPage, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(counted)))
	}
}
