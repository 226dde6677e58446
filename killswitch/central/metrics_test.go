package central_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/killswitch/central"
)

const metricsPage = "../../docs/kill-switch-central.md"

// TestMetricsPage compares the page's table with what a service registers, both ways.
func TestMetricsPage(t *testing.T) {
	s := newLab(t).service(nil)
	descs := make(chan *prometheus.Desc)
	go func() { s.Registry().Describe(descs); close(descs) }()
	var registered []string
	for d := range descs {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		if strings.HasPrefix(name, "toolgate_") {
			registered = append(registered, name)
		}
	}
	page, err := os.ReadFile(metricsPage)
	check(t, err)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(toolgate_central_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(registered)
	slices.Sort(documented)
	if !slices.Equal(registered, documented) {
		t.Errorf("%s: found\n%v, expected what is registered:\n%v", metricsPage, documented, registered)
	}
}

// TestCertificatesInMetrics: who shows a certificate tells when it ends, at each scrape anew.
func TestCertificatesInMetrics(t *testing.T) {
	ends := time.Unix(1_900_000_000, 0)
	s := newLab(t).service(func(o *central.Options) {
		o.Certificates = map[string]func() time.Time{"api": func() time.Time { return ends }}
	})
	for range 2 {
		families, err := s.Registry().Gather()
		check(t, err)
		found := 0.0
		for _, f := range families {
			if f.GetName() == "toolgate_central_certificate_expiry_timestamp_seconds" {
				found = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if found != float64(ends.Unix()) {
			t.Errorf("found %v, expected %d", found, ends.Unix())
		}
		ends = ends.Add(time.Hour) // it was renewed
	}
}
