package central

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Preview is what a revocation would hit now. Sidecars count their calls; nothing of it is certain, since calls come and go.
type Preview struct {
	Live     int             `json:"live"`     // sidecars
	Answered int             `json:"answered"` // of them
	Calls    int             `json:"calls"`    // running calls that would be cut
	Covered  []CoveredTarget `json:"covered"`  // sidecars with a covered tool or call, at most maxCovered
	More     int             `json:"more,omitempty"`
}

// CoveredTarget is a sidecar that a selector covers. Tools are those of its tools that the selector names, or all of them
// when it names none: what else the selector asks for depends on each call.
type CoveredTarget struct {
	Pod       string   `json:"pod,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Instance  string   `json:"instance"`
	Tools     []string `json:"tools"`
	Calls     int      `json:"calls"`
	Answered  bool     `json:"answered"`
}

const (
	probeTime  = 800 * time.Millisecond // how long sidecars have to answer
	maxCovered = 1000
	maxProbes  = 16 // at once
)

// probes are the questions that wait for answers.
type probes struct {
	mu   sync.Mutex
	open map[string]*probe
}

type probe struct {
	want    int
	answers map[sidecarKey]int
	all     chan struct{}
}

// Preview asks the fleet what a selector would hit.
func (s *Service) Preview(ctx context.Context, p Principal, sel ledger.Selector) (Preview, error) {
	if err := p.require(Viewer); err != nil {
		return Preview{}, err
	}
	if !p.covers(&sel) {
		return Preview{}, refuse(Forbidden, "%q may ask only with a selector that names its tenants: %q", p.Name, p.Tenants)
	}
	if err := sel.KillSwitch().Validate(); err != nil {
		return Preview{}, refuse(Invalid, "%v", err)
	}
	answers, err := s.ask(ctx, sel)
	if err != nil {
		return Preview{}, err
	}
	return s.roster.preview(&sel, answers).shownTo(p, &sel), nil
}

// shownTo leaves out what a principal of some tenants may not see: sidecars where none of its calls run, and their tools.
func (v Preview) shownTo(who Principal, sel *ledger.Selector) Preview {
	if len(who.Tenants) == 0 {
		return v
	}
	v.More = 0
	v.Covered = slices.DeleteFunc(v.Covered, func(c CoveredTarget) bool { return c.Calls == 0 })
	for i := range v.Covered {
		if len(sel.Tool) == 0 {
			v.Covered[i].Tools = []string{}
		}
	}
	return v
}

func (s *Service) ask(ctx context.Context, sel ledger.Selector) (map[sidecarKey]int, error) {
	id := rand.Text()
	q := s.probes.begin(id, s.roster.counts().Live)
	if q == nil {
		return nil, refuse(Unavailable, "%d previews are under way", maxProbes)
	}
	defer s.probes.end(id)
	b, err := json.Marshal(bus.Probe{ID: id, Selector: sel})
	if err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	if err := s.opts.Conn.Publish(bus.SubjectProbe, b); err != nil {
		return nil, refuse(Unavailable, "NATS: %v", err)
	}
	limit := time.NewTimer(probeTime)
	defer limit.Stop()
	select {
	case <-limit.C:
	case <-q.all:
	case <-ctx.Done():
	}
	return s.probes.end(id), nil
}

// begin returns nil when too many are open.
func (p *probes) begin(id string, want int) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= maxProbes {
		return nil
	}
	if p.open == nil {
		p.open = map[string]*probe{}
	}
	q := &probe{want: want, answers: map[sidecarKey]int{}, all: make(chan struct{})}
	if want == 0 {
		close(q.all)
	}
	p.open[id] = q
	return q
}

func (p *probes) answer(k sidecarKey, a *bus.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.open[a.ID]
	if q == nil || len(q.answers) >= maxSidecars {
		return
	}
	q.answers[k] = max(0, a.Calls)
	if len(q.answers) == q.want {
		close(q.all)
	}
}

func (p *probes) end(id string) map[sidecarKey]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.open[id]
	delete(p.open, id)
	if q == nil {
		return nil
	}
	return q.answers
}

func (r *roster) preview(sel *ledger.Selector, answers map[sidecarKey]int) Preview {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Preview{Covered: []CoveredTarget{}}
	now := r.now()
	for k, c := range r.sidecars {
		if c.state(now) != Live {
			continue
		}
		out.Live++
		calls, answered := answers[k]
		if answered {
			out.Answered++
		}
		out.Calls += calls
		tools := c.Tools
		if len(sel.Tool) > 0 {
			tools = slices.DeleteFunc(slices.Clone(c.Tools), func(t string) bool { return !slices.Contains(sel.Tool, t) })
		}
		if len(tools) > 0 || calls > 0 {
			out.Covered = append(out.Covered, CoveredTarget{c.Pod, c.Namespace, c.Instance, tools, calls, answered})
		}
	}
	slices.SortFunc(out.Covered, func(a, b CoveredTarget) int { return b.Calls - a.Calls })
	if n := len(out.Covered); n > maxCovered {
		out.More, out.Covered = n-maxCovered, out.Covered[:maxCovered]
	}
	return out
}
