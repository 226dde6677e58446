package broker

import "time"

// maxEarlier bounds how many brokers are remembered for what they have issued.
const maxEarlier = 3

// Succeed has b take the place of old, whose tokens are good at their issuers for as long as they were: a revocation is to end those as
// well, also when it comes after a reload. Of old are remembered itself and those that it has succeeded, as long as they have something
// that may have to be revoked, and no more than maxEarlier. It is called before b is used.
func (b *Broker) Succeed(old *Broker) {
	if old == b {
		return
	}
	last, n := b, 0
	for ; old != nil && n < maxEarlier; old = old.succeeded() {
		if old.owes() {
			last.setEarlier(old)
			last = old
			n++
		}
	}
	last.setEarlier(nil)
}

func (b *Broker) succeeded() *Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.earlier
}

func (b *Broker) setEarlier(old *Broker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earlier = old
}

// owes reports whether there is, or may come, what would have to be revoked.
func (b *Broker) owes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.revokers) > 0 && (len(b.flights) > 0 || b.cache.owes(b.revokers, b.now()))
}

// owes reports whether one of the credentials that can be revoked has not ended.
func (c *cache) owes(revokers map[string]*revoker, now time.Time) bool {
	for _, e := range c.good.Values() {
		for ; e != nil; e = e.before {
			if !e.cred.ended(now) && revokers[e.cred.ref.Binding] != nil {
				return true
			}
		}
	}
	return false
}
