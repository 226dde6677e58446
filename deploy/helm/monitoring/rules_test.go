package main

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	rulesGlob = "../toolgate/rules/*.yaml"
	runbooks  = "https://github.com/toolgate/toolgate/blob/main/docs/operations.md#"
)

var promQL = parser.NewParser(parser.Options{})

// groups reads every rule file, as Prometheus does.
func groups(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	files, err := filepath.Glob(rulesGlob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no rule files: %v", err)
	}
	var all []rulefmt.RuleGroup
	for _, file := range files {
		parsed, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, promQL, slog.New(slog.NewTextHandler(t.Output(), nil)))
		for _, err := range errs {
			t.Error(err)
		}
		if parsed == nil {
			continue
		}
		base := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if len(parsed.Groups) != 1 || parsed.Groups[0].Name != "toolgate-"+base {
			t.Errorf("%s: expected one group, toolgate-%s", file, base)
		}
		all = append(all, parsed.Groups...)
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// alerts returns every alert by its name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	all := map[string]rulefmt.Rule{}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if _, twice := all[r.Alert]; twice {
				t.Errorf("%s is there twice", r.Alert)
			}
			all[r.Alert] = r
		}
	}
	return all
}

// TestAlertsAreComplete: who is woken up is told what it is, how bad, and what to do.
func TestAlertsAreComplete(t *testing.T) {
	for name, r := range alerts(t) {
		if !strings.HasPrefix(name, "Toolgate") {
			t.Errorf("%s: expected a name that begins with Toolgate", name)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: found severity %q, expected critical, warning or info", name, r.Labels["severity"])
		}
		if got := slices.Sorted(maps.Keys(r.Annotations)); !slices.Equal(got, []string{"description", "runbook_url", "summary"}) {
			t.Errorf("%s: found annotations %v, expected description, runbook_url, summary", name, got)
		}
		if want := runbooks + strings.ToLower(name); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: found runbook_url %s, expected %s", name, r.Annotations["runbook_url"], want)
		}
		for label := range r.Labels {
			if strings.HasPrefix(label, "toolgate_") {
				t.Errorf("%s: the label %s would be read as a selector by the kill switch, if it were sent there", name, label)
			}
		}
	}
}

// TestBadRulesAreRefused: the parser that all this relies on says no.
func TestBadRulesAreRefused(t *testing.T) {
	for _, bad := range []string{
		"groups: [{name: a, rules: [{alert: A, expr: 'sum by (x ('}]}]",
		"groups: [{name: a, rules: [{alert: A, expr: up, fore: 1m}]}]",
		"groups: [{name: a, rules: [{alert: A, expr: up, annotations: {summary: '{{ $labels.x'}}]}]",
	} {
		if _, errs := rulefmt.Parse([]byte(bad), false, model.LegacyValidation, promQL, slog.New(slog.DiscardHandler)); len(errs) == 0 {
			t.Errorf("%s was taken", bad)
		}
	}
}
