package central

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// metrics are the control plane's numbers. Those that are a state are read from the service when they are asked for.
type metrics struct {
	registry    *prometheus.Registry
	acks        prometheus.Counter
	propagation prometheus.Histogram
	appends     *prometheus.CounterVec
	signals     *prometheus.CounterVec
	credentials *prometheus.CounterVec
}

func newMetrics(s *Service) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		acks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "toolgate_central_acks_total", Help: "Acknowledgements of revisions by sidecars.",
		}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "toolgate_central_propagation_seconds", Help: "From the signing of an entry to its acknowledgement by a sidecar.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, NativeHistogramBucketFactor: 1.1,
		}),
		appends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_central_appends_total", Help: "Requests to add to the log, by operation and result.",
		}, []string{"op", "result"}),
		signals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_central_signals_total", Help: "Security events and alerts, by sender, event and result.",
		}, []string{"sender", "event", "result"}),
		credentials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_central_credentials_total", Help: "Requests of sidecars for credentials, by result.",
		}, []string{"result"}),
	}
	m.registry.MustRegister(m.acks, m.propagation, m.appends, m.signals, m.credentials, state{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry returns the numbers, for a handler of /metrics.
func (s *Service) Registry() *prometheus.Registry { return s.metrics.registry }

func (m *metrics) append(op ledger.Op, result string) {
	m.appends.WithLabelValues(string(op), result).Inc()
}

// CountCredentials counts a sidecar's request for credentials. The caller keeps result to a closed set.
func (s *Service) CountCredentials(result string) {
	s.metrics.credentials.WithLabelValues(result).Inc()
}

func (m *metrics) acked(after time.Duration) {
	m.acks.Inc()
	m.propagation.Observe(after.Seconds())
}

// state collects what the service knows at the moment.
type state struct{ s *Service }

var (
	descRevision  = prometheus.NewDesc("toolgate_central_revision", "The log's revision.", nil, nil)
	descActive    = prometheus.NewDesc("toolgate_central_active", "Revocations in force.", nil, nil)
	descProposals = prometheus.NewDesc("toolgate_central_proposals", "Proposals that wait for a second person.", nil, nil)
	descSidecars  = prometheus.NewDesc("toolgate_central_sidecars", "Sidecars, by state.", []string{"state"}, nil)
	descBehind    = prometheus.NewDesc("toolgate_central_sidecars_behind", "Live sidecars with an earlier revision than the log's.", nil, nil)
	descAlarm     = prometheus.NewDesc("toolgate_central_alarm", "1 while the alarm stands.", []string{"kind"}, nil)
	descEnds      = prometheus.NewDesc("toolgate_central_certificate_expiry_timestamp_seconds", "When a certificate ends, in Unix time.", []string{"certificate"}, nil)
)

// Describe implements prometheus.Collector.
func (state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRevision, descActive, descProposals, descSidecars, descBehind, descAlarm, descEnds} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	c.s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		gauge(descRevision, int(v.Revision))
		gauge(descActive, len(v.Active()))
		gauge(descProposals, len(v.Proposals()))
	})
	n := c.s.roster.counts()
	gauge(descSidecars, n.Live, string(Live))
	gauge(descSidecars, n.Silent, string(Silent))
	gauge(descSidecars, n.Leaving, string(Leaving))
	gauge(descBehind, n.Behind)
	raised := map[AlarmKind]int{}
	for _, a := range c.s.Alarms() {
		raised[a.Kind] = 1
	}
	for _, k := range Alarms {
		gauge(descAlarm, raised[k], string(k))
	}
	for name, ends := range c.s.opts.Certificates {
		gauge(descEnds, int(ends().Unix()), name)
	}
}
