//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// samples are the metrics of all replicas, added up, by name and labels.
type samples map[string]float64

const (
	durationBucket = `toolgate_injector_admission_duration_seconds_bucket{le="`
	everyDuration  = durationBucket + `+Inf"}`
)

func (r *release) samples(t *testing.T) samples {
	t.Helper()
	all := samples{}
	for _, one := range r.replicas {
		one.metrics(t, all)
	}
	return all
}

// count is how many admissions of pods were timed.
func (s samples) count() float64 { return s[everyDuration] }

// quantile is the end of the bucket that holds a quantile of the admissions, in seconds.
func (s samples) quantile(q float64) string {
	type bucket struct{ le, n float64 }
	var all []bucket
	for name, n := range s {
		rest, ok := strings.CutPrefix(name, durationBucket)
		if !ok {
			continue
		}
		if le, err := strconv.ParseFloat(strings.TrimSuffix(rest, `"}`), 64); err == nil {
			all = append(all, bucket{le, n})
		}
	}
	slices.SortFunc(all, func(a, b bucket) int {
		if a.le < b.le {
			return -1
		}
		return 1
	})
	for _, b := range all {
		if b.n >= q*s.count() {
			return fmt.Sprintf("%g s", b.le)
		}
	}
	return "unknown"
}

func loadAverage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))[0]
}
