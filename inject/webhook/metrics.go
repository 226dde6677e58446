package webhook

import (
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolgate/toolgate/inject/pod"
)

// buckets go down to a quarter of a millisecond and up to the longest time that the API server waits.
var buckets = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics counts what the injector does, in a registry of its own.
type Metrics struct {
	registry   *prometheus.Registry
	admissions *prometheus.CounterVec
	validation *prometheus.CounterVec
	duration   prometheus.Histogram
	expiry     *prometheus.GaugeVec
	syncs      *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	settings   *prometheus.GaugeVec
	revision   atomic.Pointer[string]
	manifests  *prometheus.GaugeVec
}

// NewMetrics returns metrics with those of the Go runtime and the process.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		admissions: counters("admissions_total", "Pods that were asked about, by result and, where not allowed, its reason.", "result", "reason"),
		validation: counters("validations_total", "ToolManifests that were asked about, by result and reason.", "result", "reason"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "toolgate", Subsystem: "injector", Name: "admission_duration_seconds",
			Help: "Time of an answer about a pod, from the read request.", Buckets: buckets}),
		expiry:    gauges("certificate_expiry_timestamp_seconds", "When a certificate of the release expires, in Unix time.", "certificate"),
		syncs:     counters("certificate_syncs_total", "Rounds of looking after the certificates, by result.", "result"),
		reloads:   counters("settings_reloads_total", "Reloads of the settings, by result; on error the old ones stay.", "result"),
		settings:  gauges("settings_info", "1 for the revision of the settings in force.", "revision"),
		manifests: gauges("manifests", "Manifests at hand, by source and whether pods may use them.", "source", "state"),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "toolgate", Name: "build_info", Help: "1, with the version that runs."}, []string{"version", "goversion"})
	goVersion := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		goVersion = b.GoVersion
	}
	build.WithLabelValues(version, goVersion).Set(1)
	m.registry.MustRegister(m.admissions, m.validation, m.duration, m.expiry, m.syncs, m.reloads, m.settings, m.manifests, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.zeros()
	return m
}

// zeros makes counters show before the first event: a rate needs the zero.
func (m *Metrics) zeros() {
	for _, result := range []Result{Injected, Unchanged} {
		m.admissions.WithLabelValues(string(result), "")
	}
	for _, reason := range []Reason{BadRequest, TooManyBytes, Overloaded, Misdirected, NamespaceLookup, Internal, Panicked} {
		m.admissions.WithLabelValues(string(Failed), string(reason))
	}
	for _, reason := range []pod.Reason{pod.ReservedID, pod.Privilege, pod.HostNamespace, pod.UnknownTool} {
		m.admissions.WithLabelValues(string(Refused), string(reason))
	}
	m.validation.WithLabelValues(string(Accepted), "")
	for _, result := range []string{"ok", "error"} {
		m.reloads.WithLabelValues(result)
		m.syncs.WithLabelValues(result)
	}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "toolgate", Subsystem: "injector", Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "toolgate", Subsystem: "injector", Name: name, Help: help}, labels)
}

func (m *Metrics) admitted(kind string, result Result, reason Reason, took time.Duration) {
	if kind != "pod" {
		m.validation.WithLabelValues(string(result), string(reason)).Inc()
		return
	}
	m.admissions.WithLabelValues(string(result), string(reason)).Inc()
	m.duration.Observe(took.Seconds())
}

// Reloaded counts a reload of the settings. With an error the revision in force stays what it was.
func (m *Metrics) Reloaded(revision string, err error) {
	if err != nil {
		m.reloads.WithLabelValues("error").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.SetSettings(revision)
}

// SetSettings shows the revision in force.
func (m *Metrics) SetSettings(revision string) {
	if old := m.revision.Swap(&revision); old != nil && *old != revision {
		m.settings.DeleteLabelValues(*old)
	}
	m.settings.WithLabelValues(revision).Set(1)
}

// Synced counts a round of looking after the certificates.
func (m *Metrics) Synced(err error) {
	if err != nil {
		m.syncs.WithLabelValues("error").Inc()
		return
	}
	m.syncs.WithLabelValues("ok").Inc()
}

// Expires shows when a certificate, by the name of its Secret or file, expires.
func (m *Metrics) Expires(certificate string, at time.Time) {
	m.expiry.WithLabelValues(certificate).Set(float64(at.Unix()))
}

// SetManifests shows how many manifests of a source (folder or cluster) pods may use, and how many not.
func (m *Metrics) SetManifests(source string, accepted, refused int) {
	m.manifests.WithLabelValues(source, "accepted").Set(float64(accepted))
	m.manifests.WithLabelValues(source, "refused").Set(float64(refused))
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
