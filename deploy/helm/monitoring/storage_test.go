package main

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory is the series of one test, for the query engine. The database of Prometheus itself would bring a hundred packages
// of clouds that it can write to.
type memory struct {
	series map[string]*line
}

type line struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (m *memory) add(l labels.Labels, at int64, v float64) {
	key := l.String()
	if m.series[key] == nil {
		m.series[key] = &line{labels: l}
	}
	m.series[key].samples = append(m.series[key].samples, point{at, v})
}

// Querier implements storage.Queryable.
func (m *memory) Querier(from, to int64) (storage.Querier, error) { return window{m, from, to}, nil }

// window is what lies between two times.
type window struct {
	*memory
	from, to int64
}

// Select implements storage.Querier.
func (w window) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, l := range w.series {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.labels.Get(m.Name)) }) {
			first, _ := slices.BinarySearchFunc(l.samples, w.from, byTime)
			end, _ := slices.BinarySearchFunc(l.samples, w.to+1, byTime)
			found = append(found, storage.NewListSeries(l.labels, l.samples[first:end]))
		}
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &set{found, -1}
}

func byTime(s chunks.Sample, t int64) int { return int(s.T() - t) }

// LabelValues implements storage.Querier; the engine does not ask for them.
func (window) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements storage.Querier; the engine does not ask for them.
func (window) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements storage.Querier.
func (window) Close() error { return nil }

// set implements storage.SeriesSet.
type set struct {
	all []storage.Series
	at  int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// point implements chunks.Sample.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                    { return p.t }
func (point) ST() int64                     { return 0 }
func (p point) F() float64                  { return p.v }
func (point) H() *histogram.Histogram       { return nil }
func (point) FH() *histogram.FloatHistogram { return nil }
func (point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample         { return p }

// TestMemoryIsAWindow: what lies outside of a query's time is not given, else a rule would see the future.
func TestMemoryIsAWindow(t *testing.T) {
	m := &memory{series: map[string]*line{}}
	for i := range int64(5) {
		m.add(labels.FromStrings("a", "b"), i*1000, float64(i))
	}
	q, _ := m.Querier(1000, 3000)
	s := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "a", "b"))
	if !s.Next() {
		t.Fatal("the series was not found")
	}
	n := 0
	for it := s.At().Iterator(nil); it.Next() != chunkenc.ValNone; n++ {
	}
	if n != 3 {
		t.Errorf("found %d samples, expected those of 1, 2 and 3 s", n)
	}
}
