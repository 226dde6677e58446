package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// killMetrics count what the kill switch's bus did.
type killMetrics struct {
	refused, acks, writes, credentials *prometheus.CounterVec
	propagation                        prometheus.Histogram
}

var (
	descSourceAge = prometheus.NewDesc("toolgate_kill_switch_source_age_seconds", "Time since this source was heard; +Inf if never.", []string{"source"}, nil)
	descLog       = prometheus.NewDesc("toolgate_kill_switch_log_revision", "Revision of the control plane's log that is in force here.", nil, nil)
)

func newKillMetrics(r *prometheus.Registry) killMetrics {
	k := killMetrics{
		refused:     counters("kill_switch_refused_total", "Messages of the kill switch's bus that were refused, by kind.", "kind"),
		acks:        counters("kill_switch_acks_total", "Acknowledgements to the control plane, by result.", "result"),
		writes:      counters("kill_switch_state_writes_total", "Writes of the saved kill switch state, by result.", "result"),
		credentials: counters("kill_switch_credentials_total", "Requests to the control plane for credentials of its bus, by result.", "result"),
		propagation: prometheus.NewHistogram(histogram("kill_switch_propagation_seconds",
			"Time from signing an entry of the log to its effect here, by the signer's clock as estimated.", buckets)),
	}
	r.MustRegister(k.refused, k.acks, k.writes, k.credentials, k.propagation)
	for _, result := range []string{"ok", "error"} { // a rate needs the zero before the first one
		k.acks.WithLabelValues(result)
		k.writes.WithLabelValues(result)
		k.credentials.WithLabelValues(result)
	}
	for _, kind := range []string{"malformed", "unknown_key", "forged", "other_log", "gap", "behind", "fork", "rollback", "replayed"} {
		k.refused.WithLabelValues(kind)
	}
	return k
}

// KillSwitch counts an event of the kill switch's bus: "refused" and its kind, "ack", "state_write" or "credentials" and its result,
// or "propagation" and how long it took.
func (m *Metrics) KillSwitch(name, result string, took time.Duration) {
	switch name {
	case "refused":
		m.kill.refused.WithLabelValues(result).Inc()
	case "ack":
		m.kill.acks.WithLabelValues(result).Inc()
	case "state_write":
		m.kill.writes.WithLabelValues(result).Inc()
	case "credentials":
		m.kill.credentials.WithLabelValues(result).Inc()
	case "propagation":
		m.kill.propagation.Observe(took.Seconds())
	}
}
