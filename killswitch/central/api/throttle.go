package api

import (
	"maps"
	"sync"
	"time"
)

// maxThrottled bounds how many are counted one by one. Beyond it those who are new share one count, so that a flood of
// addresses neither takes memory nor gets through.
const maxThrottled = 20_000

// throttle lets each key through rate times a second, and burst times at once. Create it with newThrottle.
type throttle struct {
	rate, burst float64

	mu   *sync.Mutex
	left map[string]bucket
}

// bucket is what a key had left at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

func newThrottle(rate, burst float64) throttle {
	return throttle{rate: rate, burst: burst, mu: &sync.Mutex{}, left: map[string]bucket{}}
}

// allow reports whether key may go on now, and counts it then.
func (t *throttle) allow(key string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, known := t.left[key]
	if !known && len(t.left) >= maxThrottled {
		maps.DeleteFunc(t.left, func(_ string, b bucket) bool { return t.filled(b, now).tokens >= t.burst })
		if len(t.left) >= maxThrottled {
			key = ""
			b, known = t.left[key]
		}
	}
	if !known {
		b = bucket{t.burst, now}
	}
	if b = t.filled(b, now); b.tokens < 1 {
		return false
	}
	b.tokens--
	t.left[key] = b
	return true
}

func (t *throttle) filled(b bucket, now time.Time) bucket {
	if d := now.Sub(b.at); d > 0 {
		return bucket{min(t.burst, b.tokens+d.Seconds()*t.rate), now}
	}
	return b
}
