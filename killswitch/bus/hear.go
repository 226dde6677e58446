package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// origin is where a message came from.
type origin int

const (
	live origin = iota
	heartbeats
	answers // to what we asked
)

type received struct {
	from origin
	msg  *nats.Msg
	at   time.Time
}

// hearing is what the goroutine of hear knows.
type hearing struct {
	state ledger.State
	kept  saved
	fresh freshness

	dirty    bool          // state or its expiries differ from what is in force
	whole    bool          // and not by the entries of applied alone
	applied  []applied     // entries since the last effect
	unsaved  bool          // the file is behind
	ahead    time.Duration // of our clock, as used for the expiries in force
	anchored bool          // the expiries in force are by the signer's clock

	target  uint64      // the newest revision that something verified has shown
	pending *beat       // a fresh one that is ahead of state
	agreed  []byte      // the last heartbeat that agreed with state, as it was signed
	heard   time.Time   // when the switch was last told
	refused ledger.Kind // stands until a heartbeat agrees with state
	warned  map[ledger.Kind]bool

	asking
}

// applied is one entry on its way to its effect.
type applied struct {
	id               string // of what it is about
	signed, received time.Time
}

// tickEvery is how often time is looked at: for what should have come and for a clock that was moved.
const tickEvery = 250 * time.Millisecond

// hear is the one goroutine that owns the log's state.
func (s *Source) hear(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.in:
			s.take(m)
			for range 256 { // what arrived with it has its effect with it
				select {
				case m := <-s.in:
					s.take(m)
					continue
				default:
				}
				break
			}
		case <-s.up:
			s.reconnected(time.Now())
		case <-tick.C:
		}
		s.settle(time.Now())
	}
}

func (s *Source) take(m received) {
	switch m.from {
	case live:
		s.entry(m, false)
	case heartbeats:
		s.heartbeat(m)
	case answers:
		s.answer(m)
	}
}

// settle brings everything up to what is known: the effect first, then what follows from it.
func (s *Source) settle(now time.Time) {
	s.moveExpiries(now)
	s.enforce()
	if p := s.pending; p != nil && p.Revision <= s.state.Revision {
		s.pending = nil
		if s.fresh.now(now).Sub(p.At) <= lateness {
			s.compare(p, now)
		}
	}
	s.ask(now)
	s.save()
	s.show()
}

// entry takes one entry of the log. fetched says that it answers a request.
func (s *Source) entry(m received, fetched bool) {
	e, err := s.keys.Load().Decode(m.msg.Data)
	if err == nil {
		if e.Log == s.state.Log || s.state.Log == "" {
			s.target = max(s.target, e.Revision)
		}
		err = s.state.Apply(e)
	}
	if err != nil {
		// What was fetched overlaps with what came meanwhile.
		if !fetched || !errors.Is(err, &ledger.Error{Kind: ledger.Behind}) {
			s.refuse(err)
		}
		return
	}
	s.agreed = nil
	s.kept.add(e, m.msg.Data)
	if s.o.StateDir == "" {
		s.kept.keepLast()
	}
	s.dirty, s.unsaved = true, true
	s.applied = append(s.applied, applied{e.ID, e.At, m.at})
}

// beat is a heartbeat that was found to be new.
type beat struct {
	*ledger.Heartbeat
	raw []byte
	// since is the revision that we had when we asked for it; it was signed after that. Negative: unasked.
	since int64
}

// heartbeat takes one that may be an answer to our nonce.
func (s *Source) heartbeat(m received) {
	h, err := s.keys.Load().DecodeHeartbeat(m.msg.Data)
	b := &beat{Heartbeat: h, raw: m.msg.Data, since: -1}
	switch {
	case err != nil:
		s.refuse(err)
		return
	case h.Nonce != "" && s.answersNonce(h.Nonce, m.at):
		b.since = int64(s.nonceRevision)
		s.fresh.answered(h, m.at)
	case h.Nonce == "" && !s.fresh.anchored():
		return // it may be an old one; the answer to our nonce will tell
	case h.Nonce != "" || !s.fresh.unasked(h, m.at):
		s.refuse(&ledger.Error{Kind: ledger.Replayed, Text: "a heartbeat that is not newer than what was heard"})
		return
	}
	s.moveExpiries(m.at)
	s.enforce() // what it agrees with must be in force before it counts
	if !s.dirty {
		s.compare(b, m.at)
	}
}

// compare draws the conclusion of a fresh heartbeat. That the log ends before ours may be said by a replica that signed just
// before our newest entry, whatever the clocks of the replicas say. So it is believed only of an answer to a question that
// was asked when we had that entry.
func (s *Source) compare(b *beat, now time.Time) {
	err := s.state.Compare(b.Heartbeat)
	switch {
	case err == nil:
		s.agreed = b.raw
		s.inSync(now)
	case errors.Is(err, &ledger.Error{Kind: ledger.Gap}):
		s.target = max(s.target, b.Revision)
		s.pending = b
	case errors.Is(err, &ledger.Error{Kind: ledger.Rollback}) && b.since < int64(s.state.Revision):
		s.makeSure(now)
	default:
		s.refuse(err)
	}
}

// inSync notes that the control plane is at the same entry, just now.
func (s *Source) inSync(now time.Time) {
	s.o.Switch.Heard(s.o.Name)
	s.heard = now
	s.asking.calm()
	if s.refused != "" {
		s.o.Log.Info("kill switch log agrees with the control plane again", "log_revision", s.state.Revision, "refused_before", string(s.refused))
		s.refused = ""
		s.Changed()
	}
	clear(s.warned)
}

// refuse counts a refusal, and logs the first of its kind since the log last agreed.
func (s *Source) refuse(err error) {
	var e *ledger.Error
	if !errors.As(err, &e) {
		return
	}
	s.o.Observe(Event{Name: "refused", Result: string(e.Kind)})
	if !s.warned[e.Kind] {
		s.warned[e.Kind] = true
		s.o.Log.Warn("kill switch message refused; what is revoked stays so", "kind", string(e.Kind), "log_revision", s.state.Revision, "error", e.Text)
	}
	switch e.Kind {
	case ledger.Gap, ledger.Behind, ledger.Replayed:
		return // mended by fetching, or harmless
	}
	if s.refused != e.Kind {
		s.refused = e.Kind
		s.Changed()
	}
}

// moveExpiries keeps expiries by the signer's clock whatever happens to ours. Before the control plane was heard nothing
// expires, since our clock alone is not trusted with ending a revocation.
func (s *Source) moveExpiries(now time.Time) {
	if !s.fresh.anchored() {
		return
	}
	ahead := s.fresh.ahead(now)
	if d := ahead - s.ahead; s.anchored && d.Abs() <= time.Second {
		return
	}
	s.ahead, s.anchored, s.dirty, s.whole = ahead, true, true, true
}

// enforce puts the state in force, and then tells about it.
func (s *Source) enforce() {
	if !s.dirty {
		return
	}
	effect, err := s.amend()
	if err != nil { // the ledger has checked all that the switch checks
		s.refuse(&ledger.Error{Kind: ledger.Malformed, Text: err.Error()})
		return
	}
	s.dirty, s.whole = false, false
	if len(s.applied) == 0 {
		return
	}
	now := time.Now()
	s.acknowledge(effect, now.Sub(s.applied[0].received))
	if s.fresh.anchored() {
		for _, a := range s.applied {
			s.o.Observe(Event{Name: "propagation", Took: max(0, s.fresh.now(now).Sub(a.signed))})
		}
	}
	s.o.Log.Info("kill switch log applied", "log_revision", s.state.Revision, "entries", len(s.applied), "cut", effect.Cut)
	s.applied = nil
}

// amend brings the switch to what the state says: of the entries that came alone where that is all that has changed.
func (s *Source) amend() (killswitch.Effect, error) {
	if s.whole {
		set := s.state.KillSwitch(s.ahead)
		for i := range set {
			s.unexpiring(&set[i])
		}
		return s.o.Switch.Enforce(s.o.Name, set)
	}
	var put []killswitch.Revocation
	var drop []string
	seen := map[string]bool{}
	for _, a := range s.applied {
		if seen[a.id] {
			continue
		}
		seen[a.id] = true
		r, active := s.state.Get(a.id)
		if !active {
			drop = append(drop, a.id)
			continue
		}
		k := r.KillSwitch(s.ahead)
		s.unexpiring(&k)
		put = append(put, k)
	}
	return s.o.Switch.Amend(s.o.Name, put, drop)
}

// unexpiring takes the expiry away while no clock is known to judge it by.
func (s *Source) unexpiring(r *killswitch.Revocation) {
	if !s.anchored {
		r.Expires = time.Time{}
	}
}

// show publishes what is known to other goroutines.
func (s *Source) show() {
	if v := s.view.Load(); v == nil || v.Revision != s.state.Revision || v.Head != s.state.Head || v.Refused != s.refused {
		s.view.Store(&View{Revision: s.state.Revision, Head: s.state.Head, Refused: s.refused, proof: s.proof()})
	}
}

// maxProof bounds a proof, so that a status fits into a message.
const maxProof = 128 << 10

// proof is what shows the control plane that its store has lost entries or is another one: the newest that we hold of what
// it has signed. Nil while nothing of that kind is refused.
func (s *Source) proof() []byte {
	switch s.refused {
	case ledger.Rollback, ledger.Fork, ledger.OtherLog:
	default:
		return nil
	}
	raw := s.agreed // small whatever the log holds
	if raw == nil {
		raw = s.kept.newest()
	}
	if len(raw) > maxProof {
		return nil
	}
	return raw
}
