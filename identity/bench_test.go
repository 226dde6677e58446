//go:build linux

package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The bench module reads the output of these. They measure CPU time of the process, and what is compared takes turns.

func cpuTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// benchWorld has keys, and its tokens are good for the length of a benchmark.
func benchWorld(b *testing.B) *world {
	w := newWorld(b, nil)
	if err := w.v.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkSeen is a token that was verified before.
func BenchmarkSeen(b *testing.B) {
	w := benchWorld(b)
	token := w.mint(b, nil)
	if err := w.verify(token); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before, n := cpuTime(b), 0
	for ; b.Loop(); n++ {
		if _, err := w.v.Verify(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/op")
}

// BenchmarkNew is an ES256 token that was not seen before, beside the check of its signature alone.
func BenchmarkNew(b *testing.B) {
	w := benchWorld(b)
	const turn = 20
	tokens := make([]string, turn)
	for i := range tokens {
		tokens[i] = w.mint(b, map[string]any{"run_id": fmt.Sprint(i)})
	}
	key := w.v.order[0].keys.current.Load().all[0].Key.(*ecdsa.PublicKey)
	bare := func(token string) bool {
		signed, encoded, _ := cutLast(token)
		sig, _ := decode(encoded)
		sum := sha256.Sum256([]byte(signed))
		return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
	}
	var whole, part time.Duration
	n := 0
	for ; b.Loop(); n++ {
		w.v.cache.lru.Purge()
		at := cpuTime(b)
		for _, token := range tokens {
			if _, err := w.v.Verify(ctx, token); err != nil {
				b.Fatal(err)
			}
		}
		middle := cpuTime(b)
		for _, token := range tokens {
			if !bare(token) {
				b.Fatal("the signature is bad")
			}
		}
		whole, part = whole+middle-at, part+cpuTime(b)-middle
	}
	b.ReportMetric(float64(whole)/float64(n*turn), "cpu-ns/op")
	b.ReportMetric(float64(whole)/float64(part), "x-bare")
}

// BenchmarkBesideJunk is the p99 of tokens that were not seen before, with and without 1,000 junk tokens a second beside them, and how
// often keys were fetched for the junk.
func BenchmarkBesideJunk(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU())) // the junk comes by connections of its own
	w := benchWorld(b)
	tokens := make([]string, 256)
	for i := range tokens {
		tokens[i] = w.mint(b, map[string]any{"run_id": fmt.Sprint(i)})
	}
	junk := junkTokens(b, w)
	var times [2][]time.Duration
	measure := func(with int) {
		w.v.cache.lru.Purge()
		for _, token := range tokens {
			at := time.Now()
			if _, err := w.v.Verify(ctx, token); err != nil {
				b.Fatal(err)
			}
			times[with] = append(times[with], time.Since(at))
		}
	}
	fetched := w.fetches()
	var sent atomic.Int64
	var flooding time.Duration
	for b.Loop() {
		measure(0)
		stop, began := make(chan struct{}), time.Now()
		var flood sync.WaitGroup
		flood.Go(func() { sent.Add(w.flood(b, junk, stop)) })
		measure(1)
		close(stop)
		flood.Wait()
		flooding += time.Since(began)
	}
	for i := range times {
		slices.Sort(times[i])
	}
	p99 := func(t []time.Duration) float64 { return float64(t[len(t)*99/100]) }
	b.ReportMetric(p99(times[1])/p99(times[0]), "x-p99")
	b.ReportMetric(float64(w.fetches()-fetched), "fetches")
	b.ReportMetric(float64(sent.Load())/flooding.Seconds(), "junk/s")
}

// flood verifies 1,000 junk tokens a second, catching up where it was held up, and returns how many.
func (w *world) flood(b *testing.B, junk []string, stop chan struct{}) (n int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-stop:
			return n
		case <-tick.C:
			for ; n < time.Since(began).Microseconds()/900; n++ { // what is due at the end of a turn is not sent
				if _, err := w.v.Verify(ctx, junk[int(n)%len(junk)]); err == nil {
					b.Error("junk was accepted")
				}
			}
		}
	}
}

// junkTokens are of every kind that reaches far: an unknown kid, a bad signature by a known one, another issuer's, and none of these.
func junkTokens(b *testing.B, w *world) []string {
	other := startIssuer(b, w.clock)
	var out []string
	for i := range 64 {
		good := w.mint(b, map[string]any{"run_id": fmt.Sprint("junk-", i)})
		signed, _, _ := cutLast(good)
		_, signature, _ := cutLast(w.mint(b, map[string]any{"run_id": fmt.Sprint("other-", i)}))
		foreign, err := other.Mint(claims(nil))
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, w.mintWith(b, map[string]any{"kid": fmt.Sprint("unknown-", i)}, nil, "ES256"), signed+"."+signature, foreign, fmt.Sprintf("junk.%d.junk", i))
	}
	return out
}
