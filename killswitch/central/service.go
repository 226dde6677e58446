package central

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Options are a Service's settings.
type Options struct {
	Conn     *nats.Conn
	Signer   *ledger.Signer
	Trusted  []string // public keys that signed earlier entries, besides Signer's
	Replicas int      // of the streams, when they are made; 0 is 1
	Instance string   // names this replica; empty: at random

	// SecondPerson says what needs a second person's approval.
	SecondPerson struct{ Restore, All bool }

	// WarmUp is how long after New the fleet counts as not known yet, since sidecars speak every bus.StatusEvery. 0: a
	// little longer than that.
	WarmUp time.Duration

	// Certificates tell when what this process shows to others ends, by what it is for; metrics ask them at each scrape.
	Certificates map[string]func() time.Time

	Now func() time.Time // nil: time.Now
	Log *slog.Logger
}

// Service is the control plane. Make it with New, and let Run go on for as long as it is to serve. All other methods are
// safe for concurrent use; what they refuse is an *Error.
type Service struct {
	opts    Options
	log     *Log
	roster  *roster
	watch   *watchers
	metrics *metrics
	probes  probes
	syncs   chan syncRequest
	raised  []Alarm // when alarms was last told; guarded by watch.mu
	senders func() []Sender
}

// New returns a service that has not read its log yet; Run does.
func New(o Options) (*Service, error) {
	keys, err := ledger.ParseKeys(append(slices.Clone(o.Trusted), o.Signer.PublicKey())...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Instance == "" {
		o.Instance = rand.Text()
	}
	if o.WarmUp == 0 {
		o.WarmUp = bus.StatusEvery + bus.StatusEvery/5
	}
	s := &Service{
		opts: o, watch: newWatchers(), syncs: make(chan syncRequest, syncBatch), senders: func() []Sender { return nil },
	}
	s.metrics = newMetrics(s)
	s.roster = newRoster(o.Now, o.WarmUp, s.metrics.acked)
	s.log = &Log{
		store: store{o.Conn, js, max(o.Replicas, 1)}, signer: o.Signer, keys: keys, now: o.Now, heard: s.onEntry,
		ids: map[string]*life{},
	}
	return s, nil
}

// onEntry runs for each entry of the log, in order.
func (s *Service) onEntry(e *ledger.Entry, live bool) {
	s.roster.begin(e, live)
	if live {
		s.watch.publish(Event{Entry: e})
	}
}

// Request is what a revocation is asked for with.
type Request struct {
	ID       string          `json:"id,omitempty"` // empty: made up; the same id again is the same request
	Selector ledger.Selector `json:"selector"`
	Reason   string          `json:"reason"`
	Ticket   string          `json:"ticket,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
}

// Outcome is what a request led to.
type Outcome struct {
	Entry  *ledger.Entry `json:"entry"`
	Repeat bool          `json:"repeat,omitempty"` // the log had it already: this request, or one like it, came before
}

// NeedsApproval reports whether the outcome is a proposal.
func (o Outcome) NeedsApproval() bool { return o.Entry.Op == ledger.Propose }

// Revoke puts a revocation in force, or proposes it where that needs a second person.
func (s *Service) Revoke(ctx context.Context, p Principal, r Request) (Outcome, error) {
	if err := p.require(Responder); err != nil {
		return Outcome{}, err
	}
	if !p.covers(&r.Selector) {
		return Outcome{}, refuse(Forbidden, "%q may revoke only with a selector that names its tenants: %q", p.Name, p.Tenants)
	}
	if r.Reason == "" {
		return Outcome{}, refuse(Invalid, "the reason is missing")
	}
	if r.ID == "" {
		r.ID = newID(s.opts.Now())
	}
	r.Expires = r.Expires.UTC()
	return s.append(ctx, ledger.Revoke, func(v *View) (*ledger.Entry, error) {
		if known := v.ids[r.ID]; known != nil {
			return nil, repeated(&p, known.begun, func(e *ledger.Entry) bool {
				return e.Selector != nil && string(canonical(e.Selector)) == string(canonical(&r.Selector)) &&
					e.Reason == r.Reason && e.Ticket == r.Ticket && e.Expires.Equal(r.Expires) && e.By == p.Name
			})
		}
		if !r.Expires.IsZero() && !r.Expires.After(v.Now) {
			return nil, refuse(Invalid, "it would have expired at %s already", r.Expires.Format(time.RFC3339))
		}
		e := v.Next(v.Now)
		e.Op, e.ID, e.Selector, e.Reason, e.Ticket, e.Expires, e.By = ledger.Revoke, r.ID, &r.Selector, r.Reason, r.Ticket, r.Expires, p.Name
		if r.Selector.All && s.opts.SecondPerson.All {
			e.Op, e.Proposes = ledger.Propose, ledger.Revoke
		}
		return e, nil
	})
}

// newID is sortable by time and not to be guessed.
func newID(now time.Time) string { return now.UTC().Format("2006-01-02-150405-") + rand.Text()[:6] }

// repeat is what decide returns when the log has what was asked for.
type repeat struct{ entry *ledger.Entry }

func (repeat) Error() string { return "the log has it already" }

// repeated tells a request that came twice from another one that uses the same id.
func repeated(p *Principal, e *ledger.Entry, same func(*ledger.Entry) bool) error {
	if same(e) {
		return repeat{e}
	}
	err := refuse(Conflict, "the id %q was used for something else; choose another", e.ID)
	if p.covers(e.Selector) {
		err.Entry = e
	}
	return err
}

// append runs Log.Append, counts it and turns a repeat into an outcome.
func (s *Service) append(ctx context.Context, op ledger.Op, decide func(*View) (*ledger.Entry, error)) (Outcome, error) {
	e, err := s.log.Append(ctx, decide)
	var again repeat
	if errors.As(err, &again) {
		s.metrics.append(op, "repeat")
		return Outcome{again.entry, true}, nil
	}
	if err != nil {
		s.metrics.append(op, result(err))
		return Outcome{}, err
	}
	s.metrics.append(e.Op, "ok")
	s.opts.Log.Info("kill switch", "op", e.Op, "id", e.ID, "revision", e.Revision, "by", e.By, "approved_by", e.ApprovedBy)
	if e.Revision%checkpointEvery == 0 {
		s.checkpoint(context.WithoutCancel(ctx))
	}
	return Outcome{Entry: e}, nil
}

func result(err error) string {
	var mine *Error
	if errors.As(err, &mine) {
		return string(mine.Code)
	}
	return string(Invalid)
}

// Reason is why something is restored, approved, declined or drilled.
type Reason struct {
	Reason string `json:"reason,omitempty"`
	Ticket string `json:"ticket,omitempty"`
}

// Restore ends a revocation, or proposes to where that needs a second person.
func (s *Service) Restore(ctx context.Context, p Principal, id string, why Reason) (Outcome, error) {
	if err := p.require(Responder); err != nil {
		return Outcome{}, err
	}
	return s.append(ctx, ledger.Restore, func(v *View) (*ledger.Entry, error) {
		if err := mayRestore(v, &p, id); err != nil {
			return nil, err
		}
		e := v.Next(v.Now)
		e.Op, e.ID, e.Reason, e.Ticket, e.By = ledger.Restore, id, why.Reason, why.Ticket, p.Name
		if s.opts.SecondPerson.Restore {
			if open := proposalFor(v, ledger.Restore, id); open != nil {
				return nil, repeat{open}
			}
			e.Op, e.Proposes = ledger.Propose, ledger.Restore
		}
		return e, nil
	})
}

// mayRestore returns nil when id is in force and p may end it.
func mayRestore(v *View, p *Principal, id string) error {
	known := v.ids[id]
	switch {
	case known == nil || known.begun.Selector == nil || !p.covers(known.begun.Selector):
		if len(p.Tenants) > 0 {
			return errNotYours(p)
		}
		return refuse(NotFound, "there is no revocation %q", id)
	case known.ended != nil:
		return repeat{known.ended}
	}
	if _, active := v.Get(id); !active {
		return refuse(Conflict, "%q is a proposal and not in force; decline it instead", id)
	}
	return nil
}

// Drill writes an entry that changes nothing and that every sidecar acknowledges.
func (s *Service) Drill(ctx context.Context, p Principal, id string, why Reason) (Outcome, error) {
	if err := p.requireAll(Responder); err != nil {
		return Outcome{}, err
	}
	if id == "" {
		id = "drill-" + newID(s.opts.Now())
	}
	return s.append(ctx, ledger.Drill, func(v *View) (*ledger.Entry, error) {
		if known := v.ids[id]; known != nil {
			return nil, repeated(&p, known.begun, func(e *ledger.Entry) bool { return e.Op == ledger.Drill })
		}
		e := v.Next(v.Now)
		e.Op, e.ID, e.Reason, e.Ticket, e.By = ledger.Drill, id, why.Reason, why.Ticket, p.Name
		return e, nil
	})
}
