package proxy

import (
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/fixture"
	"github.com/toolgate/toolgate/tracing"
)

// Metrics counts what happens. Calls are counted from the finished record, so that numbers and records agree. Labels
// come from configured sets only; a tool that is in none is "other".
type Metrics struct {
	registry   *prometheus.Registry
	tools      atomic.Pointer[config.Snapshot]
	calls      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	decision   prometheus.Histogram
	exchanges  *prometheus.CounterVec
	exchange   prometheus.Histogram
	cache      *prometheus.CounterVec
	revoked    *prometheus.CounterVec
	cuts       *prometheus.CounterVec
	masks      *prometheus.CounterVec
	unmasked   *prometheus.CounterVec
	records    *prometheus.CounterVec
	failures   *prometheus.CounterVec
	shipped    *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	names      *prometheus.CounterVec
	spans      *prometheus.CounterVec
	captures   *prometheus.CounterVec
	kill       killMetrics
	handshakes prometheus.Counter
	info       *prometheus.GaugeVec
}

// buckets reach 120 s, since tools wait for models and reports; the native histogram beside them is finer.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// fastBuckets are for what happens within the process.
var fastBuckets = []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2, .1, 1}

// NewMetrics returns metrics in a registry of their own, with those of the Go runtime and the process.
func NewMetrics(s *config.Snapshot, version string) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		calls:     counters("calls_total", "Finished calls, by tool, decision and code (ok when nothing went wrong).", "tool", "decision", "code"),
		duration:  histograms("call_duration_seconds", "Time of a finished request, from its first gate to its last byte.", buckets, "tool"),
		decision:  prometheus.NewHistogram(histogram("decision_duration_seconds", "Time of the gates of a request, without credential and dial.", fastBuckets)),
		exchanges: counters("token_exchanges_total", "Requests for a credential to an issuer, by binding and result.", "binding", "result"),
		exchange:  prometheus.NewHistogram(histogram("token_exchange_duration_seconds", "Time of a request for a credential to an issuer.", buckets)),
		cache:     counters("token_cache_events_total", "What the credential cache did.", "result"),
		revoked:   counters("token_revocations_total", "Tokens revoked at their issuer, by binding and result.", "binding", "result"),
		cuts:      counters("calls_cut_total", "Running calls cut by the kill switch.", "tool"),
		masks:     counters("redactions_total", "Masks put into payloads that were logged, by class.", "class"),
		unmasked:  counters("redaction_failures_total", "Bodies that were not logged, or from some place on, by why.", "reason"),
		records:   counters("audit_records_total", "Records of calls, by what became of them.", "result"),
		failures:  counters("audit_write_errors_total", "Attempts to write, sync or send records that failed, by where they were to go.", "sink"),
		shipped:   counters("audit_shipped_records_total", "Lines of records for audit.otlp, by what became of them.", "result"),
		reloads:   counters("config_reloads_total", "Reloads of the configuration, by result.", "result"),
		names:     counters("dns_queries_total", "DNS queries of tools, by what they were answered.", "tool", "result"),
		spans:     counters("spans_total", "Spans of traced calls, by what became of them.", "result"),
		captures:  counters("captures_total", "Calls that were to be captured as fixtures, by what became of them.", "result"),
		info:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "toolgate", Name: "config_revision_info", Help: "1 for the policy revision in force."}, []string{"revision"}),
	}
	m.kill = newKillMetrics(m.registry)
	m.handshakes = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "toolgate", Name: "gateway_handshake_failures_total", Help: "Connections to a gateway that did not get through the TLS handshake.",
	})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "toolgate", Name: "build_info", Help: "1, with the version that runs."}, []string{"version", "goversion"})
	goVersion := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		goVersion = b.GoVersion
	}
	build.WithLabelValues(version, goVersion).Set(1)
	m.registry.MustRegister(m.calls, m.duration, m.decision, m.exchanges, m.exchange, m.cache, m.revoked, m.cuts, m.masks, m.unmasked, m.records, m.failures, m.shipped, m.reloads, m.names, m.spans, m.captures, m.handshakes,
		m.info, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.setTools(s)
	for _, result := range []string{"written", "dropped", "error"} { // a rate needs the zero before the first one
		m.records.WithLabelValues(result)
	}
	for _, sink := range []string{"output", "otlp"} {
		m.failures.WithLabelValues(sink)
	}
	for _, result := range []string{"shipped", "rejected", "dropped"} {
		m.shipped.WithLabelValues(result)
	}
	for _, result := range fixture.Results {
		m.captures.WithLabelValues(result)
	}
	for _, reason := range []string{notReadable, noMemory} {
		m.unmasked.WithLabelValues(reason)
	}
	for _, result := range tracing.Results {
		m.spans.WithLabelValues(result)
	}
	for _, result := range []string{"ok", "error"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "toolgate", Name: name, Help: help}, labels)
}

func histogram(name, help string, b []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: "toolgate", Name: name, Help: help, Buckets: b,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

func histograms(name, help string, b []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogram(name, help, b), labels)
}

// attach adds what is read from the proxy's state at each scrape.
func (m *Metrics) attach(p *Proxy) { m.registry.MustRegister(state{p}) }

// setTools notes the configured set of tools and the revision in force.
func (m *Metrics) setTools(s *config.Snapshot) {
	m.tools.Store(s)
	m.info.Reset()
	m.info.WithLabelValues(s.Revision).Set(1)
}

func (m *Metrics) tool(name string) string {
	if _, known := m.tools.Load().Tools[name]; known {
		return name
	}
	return "other"
}

// count counts a finished call. exemplar is the id of a trace that it can be found in, or empty.
func (m *Metrics) count(r *audit.Record, exemplar string) {
	tool, code := m.tool(r.Tool), r.Code
	if code == "" {
		code = "ok"
	}
	m.calls.WithLabelValues(tool, r.Decision, code).Inc()
	if r.Kind != "request" {
		return // a tunnel's length says how long the tool kept it
	}
	observe(m.decision, r.PolicyTime, exemplar)
	observe(m.duration.WithLabelValues(tool), r.Total, exemplar)
}

func observe(o prometheus.Observer, took time.Duration, exemplar string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && exemplar != "" {
		e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": exemplar})
		return
	}
	o.Observe(took.Seconds())
}

func (m *Metrics) cut(tool string) { m.cuts.WithLabelValues(m.tool(tool)).Inc() }

func (m *Metrics) redacted(class string, n int) { m.masks.WithLabelValues(class).Add(float64(n)) }

func (m *Metrics) notRedacted(reason string) { m.unmasked.WithLabelValues(reason).Inc() }

// Record counts what became of a record.
func (m *Metrics) Record(result string) { m.records.WithLabelValues(result).Inc() }

// RecordFailed counts an attempt to write records that failed, of sink "output" or "otlp".
func (m *Metrics) RecordFailed(sink string) { m.failures.WithLabelValues(sink).Inc() }

// Shipped counts what became of lines for a collector; it is for ship.Options.
func (m *Metrics) Shipped(result string, n int) { m.shipped.WithLabelValues(result).Add(float64(n)) }

// Spool has how many lines wait for a collector be asked at each scrape. It is to be called once.
func (m *Metrics) Spool(waiting func() uint64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "toolgate", Name: "audit_spool_records", Help: "Lines of records that were not sent to audit.otlp yet.",
	}, func() float64 { return float64(waiting()) }))
}

// Spans counts what became of spans; it is for tracing.Options.
func (m *Metrics) Spans(result string, n int) { m.spans.WithLabelValues(result).Add(float64(n)) }

// Captures counts what became of calls that were to be captured; it is for fixture.Options.
func (m *Metrics) Captures(result string, n int) { m.captures.WithLabelValues(result).Add(float64(n)) }

// Reload counts a reload, "ok" or "error".
func (m *Metrics) Reload(result string) { m.reloads.WithLabelValues(result).Inc() }

// Broker counts what the broker did.
func (m *Metrics) Broker(e broker.Event) {
	switch e.Name {
	case "cache":
		m.cache.WithLabelValues(e.Result).Inc()
		return
	case "revocation":
		m.revoked.WithLabelValues(e.Binding, e.Result).Inc()
		return
	}
	m.exchanges.WithLabelValues(e.Binding, e.Result).Inc()
	observe(m.exchange, e.Duration, e.Trace)
}

// Handler serves the metrics, with exemplars where the scraper asks for OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 8})
}

// state collects gauges from the proxy at scrape time.
type state struct{ p *Proxy }

var (
	descTunnels  = prometheus.NewDesc("toolgate_tunnels_open", "Open tunnels: relayed, intercepted, WebSockets.", []string{"tool"}, nil)
	descRevision = prometheus.NewDesc("toolgate_kill_switch_revision", "Revision of the kill switch's set.", nil, nil)
	descAge      = prometheus.NewDesc("toolgate_kill_switch_age_seconds", "Time since the least recently heard source was heard; +Inf if one never was.", nil, nil)
	descActive   = prometheus.NewDesc("toolgate_kill_switch_active", "Revocations in force.", nil, nil)
	descFence    = prometheus.NewDesc("toolgate_fence_in_force", "1 if the last test found the rules of netinit in force, else 0. Absent where none are expected.", nil, nil)
	descBreaker  = prometheus.NewDesc("toolgate_token_endpoint_breaker", "Breaker of a binding's token endpoint: 0 closed, 1 open to the calls of one tenant, 2 open to all.", []string{"binding"}, nil)
	descRunning  = prometheus.NewDesc("toolgate_calls_running", "Calls that are running and would be cut by a revocation.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s state) Describe(ch chan<- *prometheus.Desc) {
	ch <- descTunnels
	ch <- descRevision
	ch <- descAge
	ch <- descActive
	ch <- descRunning
	ch <- descFence
	ch <- descSourceAge
	ch <- descLog
	ch <- descBreaker
	describeLimits(ch)
}

// Collect implements prometheus.Collector.
func (s state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counts := map[string]int{}
	for name := range s.p.gates.Load().snapshot.Tools {
		counts[name] = 0
	}
	for tool, n := range s.p.tunnels.byTool() {
		counts[s.p.metrics.tool(tool)] += n
	}
	for tool, n := range counts {
		gauge(descTunnels, float64(n), tool)
	}
	k := s.p.kill.Status()
	gauge(descRevision, float64(k.Revision))
	gauge(descAge, ageSeconds(k.Age))
	gauge(descActive, float64(k.Active))
	gauge(descRunning, float64(k.Running))
	if s.p.fence != nil {
		inForce := 0.0
		if s.p.fence.InForce() == nil {
			inForce = 1
		}
		gauge(descFence, inForce)
	}
	for source, age := range k.Sources {
		gauge(descSourceAge, ageSeconds(age), source)
	}
	if revision, _, ok := s.p.killLog(); ok {
		gauge(descLog, float64(revision))
	}
	for binding, state := range s.p.gates.Load().broker.Breakers() {
		gauge(descBreaker, float64(state), binding)
	}
	s.collectLimits(gauge)
}
