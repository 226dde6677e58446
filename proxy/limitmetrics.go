package proxy

import "github.com/prometheus/client_golang/prometheus"

// What the numbers beside them are compared with, so that an alert needs no copy of the configuration.
var (
	descLimit       = prometheus.NewDesc("toolgate_limit", "Limits of the configuration, by their name there.", []string{"limit"}, nil)
	descMaxStale    = prometheus.NewDesc("toolgate_kill_switch_max_stale_seconds", "How long a source of the kill switch may be silent before risky tools are denied.", nil, nil)
	descCertificate = prometheus.NewDesc("toolgate_certificate_expiry_timestamp_seconds", "When a certificate of the sidecar's own ends, in Unix time.", []string{"certificate"}, nil)
)

func describeLimits(ch chan<- *prometheus.Desc) {
	ch <- descLimit
	ch <- descMaxStale
	ch <- descCertificate
}

func (s state) collectLimits(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	now := s.p.gates.Load().snapshot
	gauge(descLimit, float64(now.Limits.MaxTunnels), "maxTunnels")
	gauge(descLimit, float64(now.Limits.MaxTunnelsPerTool), "maxTunnelsPerTool")
	gauge(descMaxStale, now.KillSwitch.MaxStale.Seconds())
	if ca := s.p.leaves.ca.Load(); ca != nil {
		gauge(descCertificate, float64(ca.cert.NotAfter.Unix()), "intercept_ca")
	}
}
