//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
)

// spread is the median and the ends of the values of several rounds.
type spread struct{ median, low, high float64 }

// spreadOf returns ok false when no round has a value.
func spreadOf(values []float64) (s spread, ok bool) {
	v := slices.Sorted(slices.Values(numbers(values)))
	if len(v) == 0 {
		return s, false
	}
	mid := len(v) / 2
	s = spread{median: v[mid], low: v[0], high: v[len(v)-1]}
	if len(v)%2 == 0 {
		s.median = (v[mid-1] + v[mid]) / 2
	}
	return s, true
}

// numbers leaves out the rounds without a value, which are NaN.
func numbers(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// ratios divides round by round, so that what slowed one round down slows both sides down. A round that lacks either side, or
// whose divisor is 0, has none.
func ratios(values, base []float64) []float64 {
	return pairs(values, base, func(v, b float64) float64 { return v / b })
}

// differences subtracts round by round.
func differences(values, base []float64) []float64 {
	return pairs(values, base, func(v, b float64) float64 { return v - b })
}

func pairs(values, base []float64, f func(v, b float64) float64) []float64 {
	if len(values) != len(base) {
		return nil
	}
	out := make([]float64, len(values))
	for i := range values {
		if out[i] = f(values[i], base[i]); math.IsInf(out[i], 0) {
			out[i] = math.NaN()
		}
	}
	return out
}

// figure prints a number with about three digits.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// cell prints "median (low–high)", or the median alone of one round, or a dash.
func cell(values []float64) string {
	s, ok := spreadOf(values)
	if !ok {
		return "–"
	}
	if len(numbers(values)) == 1 {
		return figure(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.median), figure(s.low), figure(s.high))
}

// medianCell prints the median alone.
func medianCell(values []float64) string {
	s, ok := spreadOf(values)
	if !ok {
		return "–"
	}
	return figure(s.median)
}
