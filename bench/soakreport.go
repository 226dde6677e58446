//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// trait is one thing that must not grow. A twentieth, and a little that does not scale, is noise.
type trait struct {
	name string
	of   func(soakSample) float64
	unit float64 // what it is shown in
	free float64 // growth that counts for nothing
}

var traits = []trait{
	{"RSS, MiB", func(s soakSample) float64 { return s.rss }, 1 << 20, 1 << 20},
	{"heap in use, MiB", func(s soakSample) float64 { return s.heap }, 1 << 20, 1 << 20},
	{"file descriptors", func(s soakSample) float64 { return s.files }, 1, 4},
	{"goroutines", func(s soakSample) float64 { return s.goroutines }, 1, 4},
}

const noise = 1.05

// thirds returns the medians of a trait in the first and the last third of what came after the warm-up, a sixth of the samples. ok is
// false when there are too few.
func (t trait) thirds(samples []soakSample) (first, last float64, ok bool) {
	warm := samples[len(samples)/6:]
	n := len(warm) / 3
	if n < 3 {
		return 0, 0, false
	}
	median := func(part []soakSample) float64 {
		var values []float64
		for _, s := range part {
			values = append(values, t.of(s))
		}
		s, _ := spreadOf(values)
		return s.median
	}
	return median(warm[:n]), median(warm[len(warm)-n:]), true
}

func (t trait) flat(samples []soakSample) bool {
	first, last, ok := t.thirds(samples)
	return ok && last <= first*noise+t.free
}

// verdict is nil when everything is flat and nothing unexpected happened.
func (s *soak) verdict() error {
	var errs []error
	for _, t := range traits {
		if !t.flat(s.samples) {
			errs = append(errs, errors.New(t.name+": not flat, or too few samples"))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.errs)) {
		errs = append(errs, fmt.Errorf("%d × %s", s.errs[what], what))
	}
	return errors.Join(errs...)
}

// report returns SOAK.md.
func (s *soak) report(opt *options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A steady load on one sidecar\n\nWritten by the benchmark itself. To run it again: `cd bench && %s`\n\n", opt.command)
	fmt.Fprintf(&b, "One sidecar, whose callers must prove who they are, carries all that stands below at once, for %s. Its manifest changes every %s, and\n"+
		"so does the kill switch, which revokes one of the two callers for half of that time.\n", opt.soak, s.cycle)
	var now time.Duration
	if len(s.samples) > 0 {
		now = s.samples[len(s.samples)-1].at
	}
	fmt.Fprintf(&b, "%s, last sample after %s.\n\n", s.began.UTC().Format(time.DateOnly), now.Round(time.Second))
	fmt.Fprintf(&b, "## Is it flat?\n\nMedians of the first and the last third of the samples after the warm-up, which is a sixth of them. Flat is no more than a twentieth\n"+
		"of growth, and a little that does not scale (1 MiB, 4 descriptors, 4 goroutines).\n\n| | first third | last third | |\n|---|---:|---:|---|\n")
	for _, t := range traits {
		first, last, ok := t.thirds(s.samples)
		verdict := "flat"
		switch {
		case !ok:
			verdict = "**too few samples**"
		case !t.flat(s.samples):
			verdict = "**not flat**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.name, figure(first/t.unit), figure(last/t.unit), verdict)
	}
	b.WriteString("\n## What was carried\n\n| as expected | |\n|---|---:|\n")
	for _, kind := range slices.Sorted(maps.Keys(s.done)) {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, s.done[kind])
	}
	b.WriteString("\n")
	if len(s.errs) == 0 {
		b.WriteString("Unexpected errors: 0.\n\n")
	} else {
		b.WriteString("| **unexpected** | |\n|---|---:|\n")
		for _, what := range slices.Sorted(maps.Keys(s.errs)) {
			fmt.Fprintf(&b, "| %s | %d |\n", strings.ReplaceAll(what, "|", "\\|"), s.errs[what])
		}
		b.WriteString("\n")
	}
	b.WriteString("## Samples\n\n| after | RSS MiB | heap MiB | fds | goroutines |\n|---:|---:|---:|---:|---:|\n")
	for _, one := range s.samples {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.0f | %.0f |\n", one.at.Round(time.Second), one.rss/(1<<20), one.heap/(1<<20), one.files, one.goroutines)
	}
	return b.String()
}
