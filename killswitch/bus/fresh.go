package bus

import (
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// lateness is how old a heartbeat may be, by the signer's clock as estimated here, and still count.
const lateness = 2 * HeartbeatEvery

// freshness tells a heartbeat that was signed just now from one that was recorded, and keeps an estimate of the signer's
// clock. It trusts no clock's setting: an answer to our own nonce was signed after we asked, and from there on our
// monotonic clock says how late it is for the signer. Whoever delays or replays messages can only make the estimate fall
// behind, so a later one wins.
type freshness struct {
	signer time.Time            // the signer's clock
	local  time.Time            // ours at that moment, with its monotonic reading
	seen   map[string]time.Time // the newest heartbeat of each instance
}

// anchored reports whether an answer to a nonce ever came. Before that no heartbeat counts.
func (f *freshness) anchored() bool { return !f.local.IsZero() }

// now estimates the signer's clock.
func (f *freshness) now(local time.Time) time.Time { return f.signer.Add(local.Sub(f.local)) }

// ahead estimates how far our wall clock is ahead of the signer's.
func (f *freshness) ahead(local time.Time) time.Duration {
	return local.Round(0).Sub(f.now(local))
}

// answered takes an answer to our nonce. It is believed though the clock that it shows has gone back.
func (f *freshness) answered(h *ledger.Heartbeat, local time.Time) {
	if !f.anchored() || h.At.After(f.now(local)) || f.now(local).Sub(h.At) > lateness {
		f.signer, f.local = h.At, local
		f.seen = nil
	}
	f.note(h, local)
}

// unasked reports whether a heartbeat that answers no nonce is new: newer than any of its instance, and not late.
func (f *freshness) unasked(h *ledger.Heartbeat, local time.Time) bool {
	if !f.anchored() || !h.At.After(f.seen[h.Instance]) || f.now(local).Sub(h.At) > lateness {
		return false
	}
	if h.At.After(f.now(local)) {
		f.signer, f.local = h.At, local
	}
	f.note(h, local)
	return true
}

// note forgets the instances whose next heartbeat would be late if it were not newer.
func (f *freshness) note(h *ledger.Heartbeat, local time.Time) {
	if f.seen == nil {
		f.seen = map[string]time.Time{}
	}
	for instance, at := range f.seen {
		if f.now(local).Sub(at) > lateness {
			delete(f.seen, instance)
		}
	}
	if h.At.After(f.seen[h.Instance]) {
		f.seen[h.Instance] = h.At
	}
}
