package known

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/detect"
)

// tokens makes n tokens of a kilobyte that all begin the same, as those of one issuer do.
func tokens(n int) []secret {
	r := rand.New(rand.NewPCG(5, 6))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	out := make([]secret, n)
	for i := range out {
		b := make([]byte, 800)
		for j := range b {
			b[j] = letters[r.IntN(64)]
		}
		out[i] = secret("ey" + "JhbGciOiJSUzI1NiIsImtpZCI6IjEyMyJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIn0" + string(b))
	}
	return out
}

func BenchmarkScan(b *testing.B) {
	line := `{"id":12345,"time":"2025-01-01T10:00:00Z","request_id":"4bf92f3577b34da6","message":"request handled in the service"},`
	text := []byte(strings.Repeat(line, 1<<20/len(line)))
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := New()
			for _, t := range tokens(n) {
				s.Add(t)
			}
			b.SetBytes(int64(len(text)))
			var dst []detect.Span
			for b.Loop() {
				dst = s.Scan(dst[:0], text)
			}
		})
	}
}

// BenchmarkChange adds a token to ten thousand, and takes it away.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := tokens(n + 1)
			s := New()
			for _, t := range all[1:] {
				s.Add(t)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Add(all[0])
				s.Remove(all[0])
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	s := New()
	for _, t := range tokens(1000) {
		s.Add(t)
	}
	text := []byte(strings.Repeat("some text of an event stream ", 1000))
	for b.Loop() {
		s.Open(text)
	}
}

// BenchmarkMemory reports what ten thousand tokens cost beside their own bytes.
func BenchmarkMemory(b *testing.B) {
	all := tokens(10_000)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		s := New()
		for _, t := range all {
			s.Add(t)
		}
		b.ReportMetric(float64(heap()-before)/float64(len(all)), "B/token")
		runtime.KeepAlive(s)
	}
}
