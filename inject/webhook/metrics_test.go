package webhook

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const metricsPage = "../../docs/injector.md"

var metricRow = regexp.MustCompile("(?m)^\\| `(toolgate_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\| .+ \\|$")

// TestMetricsPage compares the page with a registry in use: names, labels and types, both ways.
func TestMetricsPage(t *testing.T) {
	m := NewMetrics("test")
	m.admitted("pod", Injected, "", time.Millisecond)
	m.admitted("manifest", Refused, BadManifest, time.Millisecond)
	m.Reloaded("1", nil)
	m.Reloaded("2", nil)
	m.Synced(nil)
	m.Expires("x", time.Now())
	m.SetManifests("folder", 1, 0)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "toolgate_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		want[f.GetName()] = strings.Join(labels, ",") + " " + strings.ToLower(f.GetType().String())
		if f.GetName() == "toolgate_injector_settings_info" && len(f.GetMetric()) != 1 {
			t.Error("two revisions are in force")
		}
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		var labels []string
		for l := range strings.SplitSeq(row[3], ",") {
			if l = strings.Trim(l, " `"); l != "" {
				labels = append(labels, l)
			}
		}
		slices.Sort(labels)
		got[row[1]] = strings.Join(labels, ",") + " " + row[2]
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: the page says %q, the registry %q", name, got[name], w)
		}
	}
	for name := range got {
		if _, there := want[name]; !there {
			t.Errorf("%s has %s, which nothing counts", metricsPage, name)
		}
	}
}
