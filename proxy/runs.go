package proxy

import (
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/identity"
)

// maxRuns is how many runs are remembered at least; twice as many at most.
const maxRuns = 4096

// run names a run. Another issuer's or tenant's of the same name is another.
type run struct{ issuer, tenant, run string }

func runOf(c *identity.Caller) run { return run{c.Issuer, c.Tenant, c.Run} }

// runs remembers which capability classes the calls of each run have had that were let pass, for the records of those that follow. It
// knows of what went through this process alone. The zero value is empty.
type runs struct {
	mu          sync.Mutex
	young, aged map[run][]string // sorted, and never changed
}

// before returns the classes of the run's calls so far.
func (r *runs) before(of run) []string {
	if of.run == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(of)
}

func (r *runs) get(of run) []string {
	if had, there := r.young[of]; there {
		return had
	}
	return r.aged[of]
}

// touch adds a call's classes. A run that nobody touches is forgotten after maxRuns others.
func (r *runs) touch(of run, classes []string) {
	if of.run == "" || len(classes) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	had, young := r.young[of]
	if !young {
		had = r.aged[of]
	}
	add := slices.ContainsFunc(classes, func(c string) bool { return !slices.Contains(had, c) })
	if young && !add {
		return
	}
	if add {
		had = slices.Concat(had, classes)
		slices.Sort(had)
		had = slices.Compact(had)
	}
	if !young && (r.young == nil || len(r.young) >= maxRuns) {
		r.young, r.aged = map[run][]string{}, r.young
	}
	if !young { // the texts are parts of a token otherwise
		of = run{strings.Clone(of.issuer), strings.Clone(of.tenant), strings.Clone(of.run)}
	}
	r.young[of] = had
}
