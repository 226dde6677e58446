package proxy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"

	"github.com/miekg/dns"
)

const metricsPage = "../docs/metrics.md"

// registered returns the name of every metric of ours that the registry knows, shown or not.
func registered(t *testing.T, l *lab) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { l.metrics.registry.Describe(descs); close(descs) }()
	var all []string
	for d := range descs {
		found := descName.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		if ours(found[1]) {
			all = append(all, found[1])
		}
	}
	return all
}

var descName = regexp.MustCompile(`fqName: "([^"]+)"`)

// ours leaves out what Go's and the process's collectors bring.
func ours(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_")
}

// use makes every metric of ours show: one with labels shows nothing before it is counted.
func use(l *lab) {
	m := l.metrics
	m.count(&audit.Record{Kind: "request", Tool: "t1", Decision: "allow", Total: time.Millisecond}, "")
	m.Broker(broker.Event{Binding: "bound", Name: "exchange", Result: "ok", Duration: time.Millisecond})
	m.Broker(broker.Event{Binding: "bound", Name: "cache", Result: "hit"})
	m.cut("t1")
	m.redacted("field", 1)
	m.Record("written")
	m.Spool(func() uint64 { return 1 })
	m.Reload("ok")
}

// gathered returns labels and type of each metric of ours that the registry shows.
func gathered(t *testing.T, l *lab) map[string][2]string {
	t.Helper()
	families, err := l.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]string{}
	for _, f := range families {
		if !ours(f.GetName()) {
			continue
		}
		var labels []string
		for _, p := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, p.GetName())
		}
		slices.Sort(labels)
		all[f.GetName()] = [2]string{strings.Join(labels, ","), strings.ToLower(f.GetType().String())}
	}
	return all
}

var metricRow = regexp.MustCompile("(?m)^\\| `(toolgate_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\| .+ \\|$")

// documented returns labels and type of each metric in the page's table.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	all := map[string][2]string{}
	for _, row := range metricRow.FindAllStringSubmatch(page(t, metricsPage), -1) {
		if _, twice := all[row[1]]; twice {
			t.Errorf("%s is on the page twice", row[1])
		}
		var labels []string
		for l := range strings.SplitSeq(row[3], ",") {
			if l = strings.Trim(l, " `"); l != "" {
				labels = append(labels, l)
			}
		}
		slices.Sort(labels)
		all[row[1]] = [2]string{strings.Join(labels, ","), row[2]}
	}
	return all
}

// TestMetricsPage compares the page with a registry of a running proxy: names, labels and types, both ways.
func TestMetricsPage(t *testing.T) {
	l := newLab(t)
	use(l)
	(&stub{proxy: l.proxy, listener: "tool"}).count(dns.RcodeSuccess)
	l.proxy.fence = testFence(t)
	l.metrics.KillSwitch("refused", "forged", 0)
	l.metrics.Broker(broker.Event{Binding: "orders", Name: "revocation", Result: "ok"})
	l.proxy.killLog = func() (uint64, string, bool) { return 7, "", true }
	got, want := documented(t), gathered(t, l)
	for _, name := range registered(t, l) {
		if _, shown := want[name]; !shown {
			t.Errorf("the test does not make %s show", name)
		}
	}
	for name, w := range want {
		if g, there := got[name]; !there {
			t.Errorf("%s lacks %s", metricsPage, name)
		} else if g != w {
			t.Errorf("%s: the page says labels and type %q, the registry %q", name, g, w)
		}
	}
	for name := range got {
		if _, there := want[name]; !there {
			t.Errorf("%s has %s, which nothing counts", metricsPage, name)
		}
	}
}

// TestMetricsInAlerts: an alert on a metric that is not there would never fire.
func TestMetricsInAlerts(t *testing.T) {
	known := documented(t)
	for _, name := range regexp.MustCompile(`toolgate_[a-z_]+`).FindAllString(page(t, metricsPage), -1) {
		if _, there := known[name]; !there {
			t.Errorf("%s names %s, which is not in its table", metricsPage, name)
		}
	}
}

// TestLimitsInMetrics: what alerts compare with is what is in force.
func TestLimitsInMetrics(t *testing.T) {
	l := newLab(t)
	value := func(name, label string) float64 {
		t.Helper()
		families, err := l.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
					return m.GetGauge().GetValue()
				}
			}
		}
		t.Fatalf("found no %s of %q", name, label)
		return 0
	}
	now := l.proxy.gates.Load().snapshot
	if got := value("toolgate_limit", "maxTunnels"); got != float64(now.Limits.MaxTunnels) {
		t.Errorf("maxTunnels: found %v, expected %d", got, now.Limits.MaxTunnels)
	}
	if got := value("toolgate_limit", "maxTunnelsPerTool"); got != float64(now.Limits.MaxTunnelsPerTool) {
		t.Errorf("maxTunnelsPerTool: found %v, expected %d", got, now.Limits.MaxTunnelsPerTool)
	}
	if got := value("toolgate_kill_switch_max_stale_seconds", ""); got != now.KillSwitch.MaxStale.Seconds() {
		t.Errorf("maxStale: found %v, expected %s", got, now.KillSwitch.MaxStale)
	}
	other, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	other.cert.NotAfter = time.Unix(1_900_000_000, 0)
	l.proxy.UseCA(other)
	if got := value("toolgate_certificate_expiry_timestamp_seconds", "intercept_ca"); got != 1_900_000_000 {
		t.Errorf("found the end %v, expected that of the CA in use", got)
	}
}
