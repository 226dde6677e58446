package central

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// SidecarState is how a sidecar stands.
type SidecarState string

// The states. The set is closed; it labels a metric.
const (
	Live    SidecarState = "live"    // heard within silentAfter
	Silent  SidecarState = "silent"  // not heard for longer, and it has not said that it leaves
	Leaving SidecarState = "leaving" // it drains, or has gone in good order
)

const (
	silentAfter = 3 * bus.StatusEvery
	forgetAfter = 24 * time.Hour  // a silent sidecar is forgotten then
	goneAfter   = 5 * time.Minute // one that left is forgotten then

	// maxSidecars and maxTracked bound the roster's memory whatever is said on the bus.
	maxSidecars = 50_000
	maxTracked  = 32 // revisions whose acknowledgements are followed
	maxTools    = 256

	// maxEarly is how far an acknowledgement may be ahead: sidecars hear of a stored entry before the replica that stored
	// it is told so.
	maxEarly = 4
)

// SidecarInfo is what is known of one sidecar.
type SidecarInfo struct {
	bus.Sidecar
	User     string        `json:"user"` // of its credentials; the only part that the NATS server vouches for
	State    SidecarState  `json:"state"`
	Revision uint64        `json:"revision"`
	Refused  ledger.Kind   `json:"refused,omitempty"`
	Running  []bus.Running `json:"running"`
	Seen     time.Time     `json:"seen"` // last heard
}

// Counts is how many sidecars are in which state.
type Counts struct {
	Live    int `json:"live"`
	Silent  int `json:"silent"`
	Leaving int `json:"leaving"`
	Refuse  int `json:"refuse"` // live ones that refuse what the log says
	Behind  int `json:"behind"` // live ones with an earlier revision than the log's
}

// sidecarKey is a sidecar, by the two tokens of the subjects that it speaks on.
type sidecarKey struct{ user, instance string }

type sidecar struct {
	SidecarInfo
	claims uint64 // revision beyond the log's that it says it has
	leaves bool
}

func (c *sidecar) state(now time.Time) SidecarState {
	switch {
	case c.leaves:
		return Leaving
	case now.Sub(c.Seen) > silentAfter:
		return Silent
	}
	return Live
}

// roster is every sidecar that was heard, and who has acknowledged what.
type roster struct {
	now  func() time.Time
	took func(time.Duration) // called with the time from signing to each acknowledgement
	warm time.Time           // before it, not all sidecars can have spoken

	mu       sync.Mutex
	sidecars map[sidecarKey]*sidecar
	tracked  map[uint64]*tracked
	head     uint64        // the log's revision
	changed  chan struct{} // closed and replaced when an acknowledgement came or a state changed
	full     bool
}

// tracked is a revision whose acknowledgements are followed.
type tracked struct {
	at       time.Time           // when it was signed, by the signer's clock
	expected map[sidecarKey]bool // nil: whoever lives
	acks     map[sidecarKey]ack
}

type ack struct {
	came          time.Time
	after, effect time.Duration
	cut           int
}

func newRoster(now func() time.Time, warmUp time.Duration, took func(time.Duration)) *roster {
	return &roster{
		now: now, took: took, warm: now().Add(warmUp), sidecars: map[sidecarKey]*sidecar{}, tracked: map[uint64]*tracked{}, changed: make(chan struct{}),
	}
}

// begin follows a new entry: all that live now are to acknowledge it. Of one that was read at start, or that came before
// the fleet was known, whoever lives is.
func (r *roster) begin(e *ledger.Entry, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head = e.Revision
	if !live {
		return
	}
	t := r.track(e.Revision)
	t.at = e.At
	for k, a := range t.acks { // those that were early
		t.acks[k] = r.counted(t, a)
	}
	for k, c := range r.sidecars {
		if _, acked := t.acks[k]; acked || c.claims == e.Revision {
			c.Revision, c.claims = e.Revision, 0
		}
	}
	if now := r.now(); now.After(r.warm) {
		t.expected = map[sidecarKey]bool{}
		for k, c := range r.sidecars {
			if c.state(now) == Live {
				t.expected[k] = true
			}
		}
	}
	delete(r.tracked, e.Revision-maxTracked)
	r.signal()
}

func (r *roster) track(revision uint64) *tracked {
	t := r.tracked[revision]
	if t == nil {
		t = &tracked{acks: map[sidecarKey]ack{}}
		r.tracked[revision] = t
	}
	return t
}

// counted completes an acknowledgement of an entry that is known.
func (r *roster) counted(t *tracked, a ack) ack {
	a.after = max(0, a.came.Sub(t.at))
	r.took(a.after)
	return a
}

// signal wakes who waits for a change. The caller holds mu.
func (r *roster) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// heard notes that a sidecar spoke, and returns it; nil when the roster is full. The caller holds mu.
func (r *roster) heard(k sidecarKey, who bus.Sidecar) *sidecar {
	c := r.sidecars[k]
	if c == nil {
		if r.full = len(r.sidecars) >= maxSidecars; r.full {
			return nil
		}
		c = &sidecar{}
		r.sidecars[k] = c
		r.signal()
	}
	who.Tools = slices.Clip(who.Tools[:min(len(who.Tools), maxTools)])
	c.Sidecar, c.User, c.Seen, c.leaves = who, k.user, r.now(), false
	return c
}

// status takes a sign of life.
func (r *roster) status(k sidecarKey, s *bus.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.heard(k, s.Sidecar)
	if c == nil {
		return
	}
	changed := c.Revision != s.Revision || c.leaves != s.Leaving || c.Refused != s.Refused
	c.Revision, c.Refused, c.leaves, c.Running = s.Revision, s.Refused, s.Leaving, s.Running[:min(len(s.Running), 100)]
	c.claims = 0
	if s.Revision > r.head {
		c.claims, c.Revision = s.Revision, r.head
	}
	if changed {
		r.signal()
	}
}

// acked takes an acknowledgement, and reports whether it is new.
func (r *roster) acked(k sidecarKey, a *bus.Ack) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.heard(k, a.Sidecar)
	if c == nil || a.Revision > r.head+maxEarly {
		return false
	}
	t := r.tracked[a.Revision]
	if a.Revision > r.head {
		t = r.track(a.Revision)
	} else {
		c.Revision, c.Refused = max(c.Revision, a.Revision), ""
	}
	if t == nil {
		return false
	}
	if _, twice := t.acks[k]; twice {
		return false
	}
	got := ack{came: r.now(), effect: max(0, a.EffectIn), cut: max(0, a.Cut)}
	if !t.at.IsZero() {
		got = r.counted(t, got)
	}
	t.acks[k] = got
	r.signal()
	return true
}

// sweep forgets who is long gone.
func (r *roster) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	maps.DeleteFunc(r.sidecars, func(_ sidecarKey, c *sidecar) bool {
		age := now.Sub(c.Seen)
		return age > forgetAfter || c.leaves && age > goneAfter
	})
	r.full = len(r.sidecars) >= maxSidecars
}

// list returns all, silent ones first, then by pod.
func (r *roster) list() []SidecarInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	all := make([]SidecarInfo, 0, len(r.sidecars))
	for _, c := range r.sidecars {
		info := c.SidecarInfo
		info.State = c.state(now)
		all = append(all, info)
	}
	slices.SortFunc(all, bySilence)
	return all
}

func bySilence(a, b SidecarInfo) int {
	return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.Instance, b.Instance))
}

func (s SidecarState) rank() int {
	switch s {
	case Silent:
		return 0
	case Live:
		return 1
	}
	return 2
}

func (r *roster) counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n Counts
	now := r.now()
	for _, c := range r.sidecars {
		switch c.state(now) {
		case Silent:
			n.Silent++
		case Leaving:
			n.Leaving++
		case Live:
			n.Live++
			if c.Refused != "" {
				n.Refuse++
			}
			if c.Revision < r.head {
				n.Behind++
			}
		}
	}
	return n
}

// claims returns the furthest revision that a live sidecar says it has beyond the log's, and how many say so.
func (r *roster) claims() (revision uint64, sidecars int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, c := range r.sidecars {
		if c.claims > r.head && c.state(now) == Live {
			revision, sidecars = max(revision, c.claims), sidecars+1
		}
	}
	return revision, sidecars
}
