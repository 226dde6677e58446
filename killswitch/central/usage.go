package central

import (
	"cmp"
	"slices"
	"time"
)

// Usage is what a tool, or a tenant, does now, as sidecars last said: up to bus.StatusEvery ago.
type Usage struct {
	Name     string `json:"name"`
	Sidecars int    `json:"sidecars"` // live ones that have it
	Calls    int    `json:"calls"`    // that run
}

// Usage returns tools and tenants, the busiest first. Who is limited to tenants gets theirs, and the tools that run for them.
func (s *Service) Usage(p Principal) (tools, tenants []Usage, err error) {
	if err := p.require(Viewer); err != nil {
		return nil, nil, err
	}
	tools, tenants = s.roster.usage(p.Tenants)
	return tools, tenants, nil
}

func (r *roster) usage(only []string) (tools, tenants []Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	byTool, byTenant := map[string]*Usage{}, map[string]*Usage{}
	for _, c := range r.sidecars {
		if c.state(now) != Live {
			continue
		}
		seen := map[[2]string]bool{}
		count := func(all map[string]*Usage, kind, name string, calls int) {
			u := all[name]
			if u == nil {
				u = &Usage{Name: name}
				all[name] = u
			}
			if !seen[[2]string{kind, name}] {
				seen[[2]string{kind, name}] = true
				u.Sidecars++
			}
			u.Calls += max(0, calls)
		}
		for _, run := range c.Running {
			if len(only) > 0 && !slices.Contains(only, run.Tenant) {
				continue
			}
			count(byTool, "tool", run.Tool, run.Calls)
			if run.Tenant != "" {
				count(byTenant, "tenant", run.Tenant, run.Calls)
			}
		}
		if len(only) == 0 {
			for _, t := range c.Tools {
				count(byTool, "tool", t, 0)
			}
		}
	}
	return busiest(byTool), busiest(byTenant)
}

func busiest(all map[string]*Usage) []Usage {
	list := make([]Usage, 0, len(all))
	for _, u := range all {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Usage) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name)) })
	return list
}

// Acknowledged is a sidecar that has a revision in force.
type Acknowledged struct {
	Pod       string        `json:"pod,omitempty"`
	Namespace string        `json:"namespace,omitempty"`
	Instance  string        `json:"instance"`
	After     time.Duration `json:"after_ns"` // from signing to the acknowledgement
	Cut       int           `json:"cut"`      // running calls that it ended
}

// Acknowledged returns who has acknowledged a revision that this replica follows, the slowest first.
func (s *Service) Acknowledged(p Principal, revision uint64) ([]Acknowledged, error) {
	if err := s.mayFollow(p, revision); err != nil {
		return nil, err
	}
	return s.roster.acknowledged(revision), nil
}

func (r *roster) acknowledged(revision uint64) []Acknowledged {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracked[revision]
	if t == nil {
		return nil
	}
	list := make([]Acknowledged, 0, len(t.acks))
	for k, a := range t.acks {
		who := Acknowledged{Instance: k.instance, After: a.after, Cut: a.cut}
		if c := r.sidecars[k]; c != nil {
			who.Pod, who.Namespace, who.Instance = c.Pod, c.Namespace, c.Instance
		}
		list = append(list, who)
	}
	slices.SortFunc(list, func(a, b Acknowledged) int {
		return cmp.Or(cmp.Compare(b.After, a.After), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return list
}
