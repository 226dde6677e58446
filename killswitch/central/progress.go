package central

import (
	"context"
	"slices"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
)

// Progress is how far a revision has got through the fleet. Expected is who lived when it was signed and has not left since.
type Progress struct {
	Revision uint64        `json:"revision"`
	At       time.Time     `json:"at"`       // signed
	Followed bool          `json:"followed"` // acknowledgements were counted from the signing on
	Warming  bool          `json:"warming"`  // the control plane has just started; not all sidecars can have spoken yet
	Expected int           `json:"expected"`
	Acked    int           `json:"acked"`      // of those expected
	Cut      int           `json:"cut"`        // running calls ended, by all that acknowledged
	Slowest  time.Duration `json:"slowest_ns"` // from signing to the last acknowledgement
	Effect   time.Duration `json:"effect_ns"`  // from receipt to effect, at the slowest sidecar
	Silent   []SidecarInfo `json:"silent"`     // expected, and not acknowledged: the first maxSilent of them
}

// maxSilent bounds what is said of who is waited for: right after the signing that is the whole fleet.
const maxSilent = 100

// countCost is a generous estimate of what progress takes for each sidecar.
const countCost = 2 * time.Microsecond

// Done reports whether nobody is waited for.
func (p *Progress) Done() bool { return p.Acked >= p.Expected && !p.Warming }

// Progress returns how far a revision has got. One that this replica has not followed from its signing counts by who says
// to have it in force now.
func (s *Service) Progress(p Principal, revision uint64) (Progress, error) {
	if err := s.mayFollow(p, revision); err != nil {
		return Progress{}, err
	}
	return s.progress(p, revision), nil
}

// progress shows who is limited to tenants no tools and calls of others.
func (s *Service) progress(p Principal, revision uint64) Progress {
	now := s.roster.progress(revision)
	if len(p.Tenants) > 0 {
		for i := range now.Silent {
			now.Silent[i].Tools = nil
			now.Silent[i].Running = slices.DeleteFunc(slices.Clone(now.Silent[i].Running), func(run bus.Running) bool {
				return !slices.Contains(p.Tenants, run.Tenant)
			})
		}
	}
	return now
}

// Wait is Progress, once nobody is waited for or ctx ends. known is what the caller has seen already: Wait returns as soon
// as there is more. The zero Progress waits for nothing but a change.
func (s *Service) Wait(ctx context.Context, p Principal, revision uint64, knownAcks int) (Progress, error) {
	if err := s.mayFollow(p, revision); err != nil {
		return Progress{}, err
	}
	ripe := time.After(2 * progressEvery) // a fleet acknowledges at once; each answer is to tell of many
	for {
		changed := s.roster.changes()
		now := s.progress(p, revision)
		if now.Done() {
			return now, nil
		}
		var tell <-chan time.Time
		if now.Acked > knownAcks {
			tell = ripe
		}
		warm := time.NewTimer(max(0, s.roster.warm.Sub(s.opts.Now())))
		if !now.Warming {
			warm.Stop()
		}
		select {
		case <-changed:
		case <-warm.C:
		case <-tell:
			return s.progress(p, revision), nil
		case <-ctx.Done():
			return s.progress(p, revision), nil
		}
		// Each acknowledgement of a large fleet is a change, and counting all at each would hold up the next.
		select {
		case <-time.After(time.Duration(now.Expected) * countCost):
		case <-ctx.Done():
		}
	}
}

func (s *Service) mayFollow(p Principal, revision uint64) error {
	if err := p.require(Viewer); err != nil {
		return err
	}
	entries, err := s.History(p, revision+1, 1, "")
	if err != nil {
		return err
	}
	if revision == 0 || len(entries) == 0 || entries[0].Revision != revision {
		return refuse(NotFound, "there is no revision %d, or it is not yours to see", revision)
	}
	return nil
}

func (r *roster) changes() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *roster) progress(revision uint64) Progress {
	p := r.count(revision)
	slices.SortFunc(p.Silent, bySilence)
	p.Silent = slices.Clip(p.Silent[:min(len(p.Silent), maxSilent)])
	return p
}

// count is progress with all that are silent, in no order.
func (r *roster) count(revision uint64) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, now := r.tracked[revision], r.now()
	p := Progress{Revision: revision, Silent: []SidecarInfo{}, Warming: !now.After(r.warm)}
	counted := t != nil && t.expected != nil
	if t != nil {
		p.At, p.Followed = t.at, true
		for _, a := range t.acks {
			p.Cut += a.cut
			p.Slowest, p.Effect = max(p.Slowest, a.after), max(p.Effect, a.effect)
		}
	}
	for k, c := range r.sidecars {
		state := c.state(now)
		if state == Leaving || counted && !t.expected[k] || !counted && state != Live {
			continue
		}
		p.Expected++
		_, acked := t.ack(k)
		// A status that names the revision says the same as an acknowledgement that was lost.
		if acked || c.Revision >= revision && c.Refused == "" {
			p.Acked++
			continue
		}
		info := c.SidecarInfo
		info.State = state
		p.Silent = append(p.Silent, info)
	}
	return p
}

func (t *tracked) ack(k sidecarKey) (ack, bool) {
	if t == nil {
		return ack{}, false
	}
	a, ok := t.acks[k]
	return a, ok
}

// Roster returns every sidecar that was heard, the silent ones first.
func (s *Service) Roster(p Principal) ([]SidecarInfo, error) {
	if err := p.requireAll(Viewer); err != nil {
		return nil, err
	}
	return s.roster.list(), nil
}
