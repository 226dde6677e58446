//go:build linux

package main

import (
	"math"
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9}},
	} {
		if got, ok := spreadOf(c.in); !ok || got != c.want {
			t.Errorf("spreadOf(%v) = %v %v, want %v", c.in, got, ok, c.want)
		}
	}
	if _, ok := spreadOf(nil); ok {
		t.Error("no values have a spread")
	}
}

func TestPairs(t *testing.T) {
	if got := ratios([]float64{2, 9}, []float64{4, 3}); !slices.Equal(got, []float64{0.5, 3}) {
		t.Errorf("ratios are not taken round by round: %v", got)
	}
	for name, got := range map[string][]float64{
		"no base":     ratios([]float64{1}, nil),
		"uneven":      ratios([]float64{1, 2}, []float64{1}),
		"zero":        ratios([]float64{1}, []float64{0}),
		"zero/0":      ratios([]float64{0}, []float64{0}),
		"no value":    differences(nil, []float64{1}),
		"other round": ratios([]float64{1, math.NaN()}, []float64{math.NaN(), 1}),
	} {
		if len(numbers(got)) > 0 {
			t.Errorf("%s: %v, want nothing", name, got)
		}
	}
}

func TestJudge(t *testing.T) {
	of := func(values ...float64) []sample {
		var out []sample
		for _, v := range values {
			out = append(out, sample{mCPU: v})
		}
		return out
	}
	r := &results{samples: map[string]map[string][]sample{"connect": {
		smoke: of(100, 200, 100), "good": of(55, 130, 60), "bad": of(61, 130, 10), "short": of(1), "failed once": append(of(55, 110), nil),
	}}}
	cpu := targets[0]
	for peer, want := range map[string][2]string{
		"good": {"2 of 3", "pass"}, "bad": {"1 of 3", "**miss**"}, "short": {"–", "**not measured**"}, "absent": {"–", "**not measured**"},
		"failed once": {"2 of 2", "pass"},
	} {
		if _, within, verdict := cpu.judge(r, peer); within != want[0] || verdict != want[1] {
			t.Errorf("%s: %s, %s; want %v", peer, within, verdict, want)
		}
	}
}

func TestFloor(t *testing.T) {
	faster := target{row: "bulk", col: column{metric: mSpeed}, bound: 5, atLeast: true}
	r := &results{samples: map[string]map[string][]sample{"bulk": {"p": {sample{mSpeed: 6}, sample{mSpeed: 4}, sample{mSpeed: 5}}}}}
	if _, within, verdict := faster.judge(r, "p"); within != "2 of 3" || verdict != "pass" {
		t.Error(within, verdict)
	}
	faster.bound = 5.5
	if _, _, verdict := faster.judge(r, "p"); verdict != "**miss**" {
		t.Error(verdict)
	}
}

func TestFigure(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 0.048: "0.05", 9.994: "9.99", 61.27: "61.3", 18438.4: "18438", -2.5: "-2.50"} {
		if got := figure(in); got != want {
			t.Errorf("figure(%v) = %s, want %s", in, got, want)
		}
	}
	if got := cell([]float64{1, 3, 2}); got != "2.00 (1.00–3.00)" {
		t.Errorf("cell: %s", got)
	}
}
