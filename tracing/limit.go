package tracing

import (
	"sync"
	"time"
)

// limits lets each tool have so many traced calls a second, so that the sampled flag, which a tool sets as it likes, buys no more than
// that. Callers that are not known share one bucket, under the empty name; the names come from the configuration.
type limits struct {
	perSecond float64
	now       func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// take takes one from the tool's bucket, which holds a second's worth.
func (l *limits) take(tool string) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[tool]
	if b == nil {
		b = &bucket{left: l.perSecond, at: now}
		l.buckets[tool] = b
	}
	b.left = min(l.perSecond, b.left+now.Sub(b.at).Seconds()*l.perSecond)
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
