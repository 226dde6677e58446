package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// State is the log folded up to Revision. The zero value is a state that has seen nothing and takes whatever log it is
// shown first; a state with Log set takes no other. It is not safe for concurrent use.
type State struct {
	Log      string
	Revision uint64
	Head     Hash
	At       time.Time // of the last entry or checkpoint, by the signer's clock

	active    map[string]Revocation
	proposals map[uint64]Entry
}

// Apply takes the next entry, which Decode has verified. It refuses with Gap, Behind, Fork or OtherLog and changes nothing
// then.
func (s *State) Apply(e *Entry) error {
	switch {
	case s.Log != "" && e.Log != s.Log:
		return refuse(OtherLog, "%.64q, not %.64q", e.Log, s.Log)
	case e.Revision == s.Revision && e.Hash() != s.Head:
		return refuse(Fork, "another entry at revision %d", e.Revision)
	case e.Revision <= s.Revision:
		return refuse(Behind, "revision %d, at %d already", e.Revision, s.Revision)
	case e.Revision > s.Revision+1:
		return refuse(Gap, "revision %d after %d", e.Revision, s.Revision)
	case e.Prev != s.Head:
		return refuse(Fork, "revision %d does not follow what was seen as %d", e.Revision, s.Revision)
	}
	s.fold(e)
	s.Log, s.Revision, s.Head, s.At = e.Log, e.Revision, e.Hash(), e.At
	return nil
}

func (s *State) fold(e *Entry) {
	if s.active == nil {
		s.active, s.proposals = map[string]Revocation{}, map[uint64]Entry{}
	}
	switch e.Op {
	case Revoke:
		s.active[e.ID] = Revocation{
			ID: e.ID, Revision: e.Revision, Selector: *e.Selector, Reason: e.Reason, Ticket: e.Ticket, By: e.By, At: e.At,
			Expires: e.Expires,
		}
	case Restore, Expire:
		delete(s.active, e.ID)
	case Propose:
		s.proposals[e.Revision] = *e
	case Decline, Drill:
	}
	delete(s.proposals, e.Proposal)
}

// Begin takes a checkpoint, which DecodeCheckpoint has verified, as the whole of what is known. It refuses unless s has
// seen nothing: a state that knows a revision must follow the chain.
func (s *State) Begin(c *Checkpoint) error {
	if s.Revision > 0 {
		return refuse(Behind, "a checkpoint of revision %d, at %d already", c.Revision, s.Revision)
	}
	if s.Log != "" && c.Log != s.Log {
		return refuse(OtherLog, "%.64q, not %.64q", c.Log, s.Log)
	}
	s.Log, s.Revision, s.Head, s.At = c.Log, c.Revision, c.Head, c.At
	s.active, s.proposals = make(map[string]Revocation, len(c.Revocations)), map[uint64]Entry{}
	for _, r := range c.Revocations {
		s.active[r.ID] = r
	}
	return nil
}

// Compare says what a verified heartbeat tells about s: nil when both are at the same entry, Gap when s lacks entries,
// Rollback when the sender lacks some, Fork when they disagree, OtherLog.
func (s *State) Compare(h *Heartbeat) error {
	switch {
	case s.Log != "" && h.Log != s.Log:
		return refuse(OtherLog, "%.64q, not %.64q", h.Log, s.Log)
	case h.Revision > s.Revision:
		return refuse(Gap, "the log is at revision %d, seen up to %d", h.Revision, s.Revision)
	case h.Revision < s.Revision:
		return refuse(Rollback, "the log ends at revision %d, seen up to %d", h.Revision, s.Revision)
	case h.Head != s.Head:
		return refuse(Fork, "another entry at revision %d", h.Revision)
	}
	return nil
}

// Checkpoint returns the fold, to be signed. The state must have seen an entry.
func (s *State) Checkpoint(at time.Time) *Checkpoint {
	return &Checkpoint{Version: 1, Log: s.Log, Revision: s.Revision, Head: s.Head, At: at.UTC(), Revocations: s.Active()}
}

// Active returns what is revoked, by id, whether or not it has expired by some clock.
func (s *State) Active() []Revocation {
	list := make([]Revocation, 0, len(s.active))
	for _, id := range slices.Sorted(maps.Keys(s.active)) {
		list = append(list, s.active[id])
	}
	return list
}

// Get returns the revocation with this id, if it is in force.
func (s *State) Get(id string) (Revocation, bool) {
	r, ok := s.active[id]
	return r, ok
}

// Proposals returns the proposals that nobody has carried out or declined, oldest first. A state that began with a
// checkpoint knows only those that came after it.
func (s *State) Proposals() []Entry {
	return slices.SortedFunc(maps.Values(s.proposals), func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
}

// Next returns an entry that follows s, for the caller to fill in and sign.
func (s *State) Next(at time.Time) *Entry {
	return &Entry{Version: 1, Log: s.Log, Revision: s.Revision + 1, Prev: s.Head, At: at.UTC()}
}

// KillSwitch returns the set for killswitch.Switch.Apply, in no order. ahead is how far the reader's clock is ahead of the signer's:
// expiries are moved by it, so that a wrong clock here ends no revocation early.
func (s *State) KillSwitch(ahead time.Duration) []killswitch.Revocation {
	set := make([]killswitch.Revocation, 0, len(s.active))
	for _, r := range s.active {
		set = append(set, r.KillSwitch(ahead))
	}
	return set
}

// KillSwitch is State.KillSwitch of one revocation.
func (r *Revocation) KillSwitch(ahead time.Duration) killswitch.Revocation {
	k := killswitch.Revocation{ID: r.ID, Selector: r.Selector.KillSwitch(), Reason: r.Reason, By: r.By, At: r.At, Expires: r.Expires}
	if !k.Expires.IsZero() {
		k.Expires = k.Expires.Add(ahead)
	}
	return k
}
