package main

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
)

// firing is an alert that fires.
type firing struct {
	labels string // without alertname and severity
	texts  string // summary and description
}

// world evaluates one group of rules over time, as Prometheus does: recorded series first become visible to the rules after
// them, and an alert fires once its expression has held for its time.
type world struct {
	*testing.T
	memory *memory
	engine *promql.Engine
	group  rulefmt.RuleGroup
	since  map[string]time.Time // when an alert with these labels became true
}

func newWorld(t *testing.T, alert string) *world {
	t.Helper()
	for _, g := range groups(t) {
		if slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return r.Alert == alert }) {
			return &world{
				T: t, group: g, memory: &memory{series: map[string]*line{}}, since: map[string]time.Time{},
				engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL}),
			}
		}
	}
	t.Fatalf("there is no alert %s", alert)
	return nil
}

// load adds series in the notation of promtool's tests, one a line, with a sample each step from the time 0.
func (w *world) load(series string, step time.Duration) {
	w.Helper()
	for text := range strings.Lines(series) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		l, values, err := promQL.ParseSeriesDesc(text)
		if err != nil {
			w.Fatalf("%s: %v", text, err)
		}
		for i, v := range values {
			if !v.Omitted {
				w.memory.add(l, int64(i)*step.Milliseconds(), v.Value)
			}
		}
	}
}

// run evaluates the group each step until the time is over, and returns what then fires of one alert.
func (w *world) run(alert string, until, step time.Duration) []firing {
	w.Helper()
	var fire []firing
	for at := time.Duration(0); at <= until; at += step {
		now := time.UnixMilli(0).Add(at)
		for _, r := range w.group.Rules {
			switch {
			case r.Record != "":
				for _, s := range w.query(r.Expr, now) {
					w.memory.add(labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Record).Labels(), now.UnixMilli(), s.F)
				}
			case r.Alert == alert:
				fire = w.alert(r, now)
			}
		}
	}
	return fire
}

func (w *world) query(expr string, at time.Time) promql.Vector {
	w.Helper()
	q, err := w.engine.NewInstantQuery(w.Context(), storage.Queryable(w.memory), nil, expr, at)
	if err != nil {
		w.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(w.Context())
	vector, err := result.Vector()
	if err != nil {
		w.Fatalf("%s at %s: %v", expr, at.Sub(time.UnixMilli(0)), err)
	}
	return slices.Clone(vector)
}

func (w *world) alert(r rulefmt.Rule, now time.Time) []firing {
	w.Helper()
	var fire []firing
	held := map[string]time.Time{}
	for _, s := range w.query(r.Expr, now) {
		l := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Labels()
		key := l.String()
		if _, twice := held[key]; twice {
			w.Fatalf("%s: two alerts with the labels %s, which Prometheus refuses", r.Alert, key)
		}
		held[key] = now
		if began, ok := w.since[key]; ok {
			held[key] = began
		}
		if now.Sub(held[key]) >= time.Duration(r.For) {
			fire = append(fire, firing{key, w.expand(r, s, r.Annotations["summary"]) + "\n" + w.expand(r, s, r.Annotations["description"])})
		}
	}
	w.since = held
	slices.SortFunc(fire, func(a, b firing) int { return strings.Compare(a.labels, b.labels) })
	return fire
}

// expand fails on a label that the alert does not have, where Prometheus itself would print nothing.
func (w *world) expand(r rulefmt.Rule, s promql.Sample, text string) string {
	w.Helper()
	if math.IsNaN(s.F) {
		w.Errorf("%s: the value is not a number", r.Alert)
	}
	known := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Labels().Map()
	data := template.AlertTemplateData(known, nil, "", s)
	query := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, fmt.Errorf("no queries in texts")
	}
	text = "{{$labels := .Labels}}{{$value := .Value}}" + text
	out, err := template.NewTemplateExpander(w.Context(), text, r.Alert, data, model.Time(0), query, &url.URL{}, []string{"missingkey=error"}).Expand()
	if err != nil {
		w.Errorf("%s: %v", r.Alert, err)
	}
	return out
}
