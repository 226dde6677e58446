package broker

import (
	"sync"
	"time"
)

const (
	breakAfter = 5                // failures in a row
	breakFor   = 5 * time.Second  // at first, then doubled
	maxBreak   = 60 * time.Second // and a Retry-After counts where it is longer
	probeFor   = 10 * time.Second // how long one probe keeps the next away
)

// breaker keeps requests from an endpoint that fails. Only what tells of the endpoint counts: transport, 5xx, 429 and invalid_client. What
// it says of one caller's token is an answer like any other. As long as all failures are of one tenant, whose requests may be what makes
// it fail, only that tenant is kept away.
type breaker struct {
	mu       sync.Mutex
	failures int // in a row
	tenant   string
	several  bool // the failures are of more than this tenant
	period   time.Duration
	until    time.Time // kept away till then; afterwards one probe decides
	probe    time.Time // until when a probe is waited for
}

// pause returns how long tenant is kept away; 0: it may ask.
func (b *breaker) pause(tenant string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away(tenant, now)
}

func (b *breaker) away(tenant string, now time.Time) time.Duration {
	switch {
	case !b.open(tenant):
		return 0
	case now.Before(b.until):
		return b.until.Sub(now)
	case now.Before(b.probe):
		return time.Second // most are answered sooner than probeFor
	}
	return 0
}

// admit reports whether tenant may ask now. After the pause the first who comes is the probe.
func (b *breaker) admit(tenant string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away(tenant, now) > 0 {
		return false
	}
	if b.open(tenant) {
		b.probe = now.Add(probeFor)
	}
	return true
}

func (b *breaker) open(tenant string) bool {
	return b.failures >= breakAfter && (b.several || tenant == b.tenant)
}

// failed counts a failure that tells of the endpoint.
func (b *breaker) failed(tenant string, retryAfter time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == 0 {
		b.tenant = tenant
	} else if tenant != b.tenant && !b.several {
		b.several = true
		b.period, b.until = 0, time.Time{} // what the one has brought upon itself is not the others'
	}
	b.failures++
	if b.failures < breakAfter || now.Before(b.until) { // the latter had been sent before
		return
	}
	b.period = min(max(2*b.period, breakFor), maxBreak)
	b.until, b.probe = now.Add(max(b.period, retryAfter)), time.Time{}
}

// answered notes that the endpoint works.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.several, b.tenant, b.period = 0, false, "", 0
	b.until, b.probe = time.Time{}, time.Time{}
}

// learnedNothing lets the next probe go, since this one was called off.
func (b *breaker) learnedNothing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probe = time.Time{}
}

// State of a breaker.
type State int

// The zero value is the endpoint in order.
const (
	Closed    State = iota
	OpenToOne       // one tenant is kept away
	Open            // all are; one at a time may try
)

func (b *breaker) state() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures < breakAfter:
		return Closed
	case b.several:
		return Open
	}
	return OpenToOne
}
