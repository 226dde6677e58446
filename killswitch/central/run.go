package central

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// checkpointEvery is how many entries lie between two checkpoints.
const checkpointEvery = 100

// storeTimeout bounds one round with the store.
const storeTimeout = 4 * time.Second

// Run serves until ctx ends: it reads the log, follows it, and speaks to the fleet. It returns an error only when it
// cannot subscribe; a store that is away is waited for, and an alarm meanwhile.
func (s *Service) Run(ctx context.Context) error {
	subs := []struct {
		subject, queue string
		f              nats.MsgHandler
	}{
		{bus.SubjectLive, "", s.onLive},
		{bus.SubjectHeartbeat, "", s.onHeartbeat},
		{bus.SubjectSync, bus.QueueCentral, func(m *nats.Msg) { s.onSync(ctx, m) }},
		{bus.AllAcks, "", s.onAck},
		{bus.AllStatuses, "", s.onStatus},
		{bus.AllAnswers, "", s.onAnswer},
	}
	for _, sub := range subs {
		n, err := s.opts.Conn.QueueSubscribe(sub.subject, sub.queue, sub.f)
		if err != nil {
			return err
		}
		defer func() { _ = n.Unsubscribe() }()
	}
	var answering sync.WaitGroup
	defer answering.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answering.Go(func() { s.answerSyncs(ctx) })
	s.load(ctx)
	s.tick(ctx)
	ticker := time.NewTicker(bus.HeartbeatEvery)
	defer ticker.Stop()
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.tick(ctx)
		case <-retry.C:
			if !s.log.isOpen() {
				s.load(ctx)
				s.tick(ctx)
			}
		}
	}
}

func (s *Service) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.log.load(ctx); err != nil {
		s.log.setAway(err)
		s.opts.Log.Error("the log is not read", "error", err)
		return
	}
	s.checkpoint(ctx)
}

// tick is what each replica does once every bus.HeartbeatEvery.
func (s *Service) tick(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s.roster.sweep()
	s.alarms()
	if !s.log.isOpen() {
		return
	}
	if s.log.isUnsure() {
		s.checkpoint(ctx) // a leader without quorum answers questions for a while; only a write tells
	}
	h, err := s.log.heartbeat(ctx, s.opts.Instance, "")
	if err != nil {
		s.opts.Log.Error("no heartbeat", "error", err)
		return
	}
	if err := s.opts.Conn.Publish(bus.SubjectHeartbeat, h.Encode()); err != nil {
		s.opts.Log.Error("no heartbeat", "error", err)
	}
	s.expire(ctx)
}

// heartbeat signs how far the log has got, by the store's present word. While the log cannot be vouched for there is none:
// then sidecars go stale and deny what is risky.
func (l *Log) heartbeat(ctx context.Context, instance, nonce string) (*ledger.Heartbeat, error) {
	if err := l.vouch(ctx); err != nil {
		return nil, err
	}
	return l.signHeartbeat(instance, nonce)
}

// vouch asks the store whether the log is as this replica knows it.
func (l *Log) vouch(ctx context.Context) error {
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	return l.writable()
}

// signHeartbeat is for use right after vouch.
func (l *Log) signHeartbeat(instance, nonce string) (*ledger.Heartbeat, error) {
	l.mu.RLock()
	h := &ledger.Heartbeat{
		Version: 1, Log: l.state.Log, Revision: l.state.Revision, Head: l.state.Head, At: l.now().UTC(), Instance: instance, Nonce: nonce,
	}
	l.mu.RUnlock()
	return h, l.signer.SignHeartbeat(h)
}

// expire ends what has expired. Of several replicas one succeeds; the others find it ended.
func (s *Service) expire(ctx context.Context) {
	var due []string
	s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		for _, r := range v.Active() {
			if expired(&r, v.Now) {
				due = append(due, r.ID)
			}
		}
	})
	for _, id := range due {
		_, err := s.append(ctx, ledger.Expire, func(v *View) (*ledger.Entry, error) {
			r, active := v.Get(id)
			if !active {
				return nil, repeat{v.ids[id].ended}
			}
			if !expired(&r, v.Now) {
				return nil, refuse(Conflict, "%q has been changed", id)
			}
			e := v.Next(v.Now)
			e.Op, e.ID, e.By = ledger.Expire, id, "control plane"
			return e, nil
		})
		if err != nil {
			s.opts.Log.Error("not expired", "id", id, "error", err)
		}
	}
}

func expired(r *ledger.Revocation, now time.Time) bool {
	return !r.Expires.IsZero() && !now.Before(r.Expires)
}

// checkpoint publishes the fold. It is a help for sidecars that start, so that failing is no error: without one they read the log.
func (s *Service) checkpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if s.log.writable() != nil {
		return
	}
	var c *ledger.Checkpoint
	s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		if v.Revision > 0 {
			c = v.Checkpoint(v.Now)
		}
	})
	if c == nil {
		s.log.setUnsure(nil)
		return
	}
	if err := s.opts.Signer.SignCheckpoint(c); err != nil {
		s.opts.Log.Error("no checkpoint", "error", err)
		return
	}
	err := s.log.store.publishCheckpoint(ctx, c.Encode())
	if err != nil {
		s.opts.Log.Warn("no checkpoint", "error", err)
	}
	if errors.Is(err, errConflict) || errors.Is(err, bus.ErrTooLarge) {
		err = nil // the store has answered, or the next entry will tell whether it does
	}
	s.log.setUnsure(err)
}

// onLive takes a stored entry, its own or another replica's.
func (s *Service) onLive(m *nats.Msg) {
	if !s.log.isOpen() {
		return
	}
	e, err := s.log.keys.Decode(m.Data)
	if err == nil {
		err = s.log.take(e)
	}
	if err != nil { // a gap, or something that the store alone can tell right from wrong
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		_ = s.log.catchUp(ctx)
	}
}

// onHeartbeat hears the other replicas. What they signed, the store must have.
func (s *Service) onHeartbeat(m *nats.Msg) {
	h, err := s.log.keys.DecodeHeartbeat(m.Data)
	if err != nil || h.Instance == s.opts.Instance {
		return
	}
	s.witness(witness{h.Log, h.Revision, h.Head})
}

// witness notes what something signed tells of, once the store has had its say.
func (s *Service) witness(w witness) {
	if !s.log.isOpen() || s.log.knows(w) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := s.log.catchUp(ctx); err == nil || errors.Is(err, &Error{Code: LogLost}) {
		s.log.testify(w)
		s.alarms()
	}
}

func (l *Log) isOpen() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.opened
}

func (l *Log) isUnsure() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unsure != nil
}

func (l *Log) setAway(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.away = err
	}
}

// readable refuses while the log has not been read: nothing is known then, which must not look like nothing revoked. What
// verifies of a broken log can be read.
func (l *Log) readable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.opened && l.broken == nil {
		return refuse(Unavailable, "the log has not been read yet")
	}
	return nil
}

// Ready returns nil when requests can be served: the log is read, verifies, and lacks nothing.
func (s *Service) Ready() error {
	if err := s.log.writable(); err != nil {
		return err
	}
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	if err := cmp.Or(s.log.away, s.log.unsure); err != nil {
		return refuse(Unavailable, "the store does not answer, or confirms nothing: %v", err)
	}
	return nil
}
