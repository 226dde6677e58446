package killswitch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Switch holds the revocations of every source and the running calls. Create it with New. All methods are safe for
// concurrent use.
type Switch struct {
	maxStale time.Duration
	now      func() time.Time
	start    time.Time // origin of source.heard; it carries the monotonic clock, so that a moved wall clock changes no age
	sources  []*source // sorted by name, never changed
	goOn     []string  // risks of tools that go on while a source is stale

	set     atomic.Pointer[set] // what calls are checked against
	running registry

	mu       sync.Mutex // held by Apply; guards what follows and the sources' entries
	revision atomic.Uint64
	onRevoke []func(Revocation)
}

type source struct {
	name    string
	heard   atomic.Int64           // nanoseconds after Switch.start, plus one; 0: never
	entries map[string]*Revocation // by id
}

// New returns a switch with the named sources, none of which has been heard yet. maxStale 0 disables staleness.
// With no source it never denies.
func New(maxStale time.Duration, sources ...string) *Switch {
	return newSwitch(time.Now, maxStale, sources...)
}

func newSwitch(now func() time.Time, maxStale time.Duration, names ...string) *Switch {
	k := &Switch{maxStale: maxStale, now: now, start: now(), goOn: []string{"low", "medium"}}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		k.sources = append(k.sources, &source{name: name, entries: map[string]*Revocation{}})
	}
	k.set.Store(&set{})
	return k
}

// DenyStale denies tools of these risks as well while a source is stale. High and critical ones, and those of an unknown
// risk, are denied in any case. Not for use once calls are checked.
func (k *Switch) DenyStale(risks ...string) {
	k.goOn = slices.DeleteFunc(slices.Clone(k.goOn), func(r string) bool { return slices.Contains(risks, r) })
}

// Check refuses like Guard but guards nothing.
func (k *Switch) Check(s Scope) error {
	s.Host = canonicalHost(s.Host)
	return k.check(k.set.Load(), &s)
}

func (k *Switch) check(set *set, s *Scope) error {
	c := clock{now: k.now}
	if r := set.find(s, &c); r != nil {
		return &Tripped{*r}
	}
	if k.maxStale > 0 && len(k.sources) > 0 && !slices.Contains(k.goOn, s.Risk) {
		if oldest, age := k.oldest(c.time()); age < 0 || age > k.maxStale {
			return &Stale{Source: oldest, Age: age}
		}
	}
	return nil
}

// oldest returns the least recently heard source and its age, negative if it was never heard.
func (k *Switch) oldest(now time.Time) (string, time.Duration) {
	var name string
	var most time.Duration
	for _, s := range k.sources {
		age := k.age(s, now)
		if age < 0 {
			return s.name, age
		}
		if name == "" || age > most {
			name, most = s.name, age
		}
	}
	return name, most
}

func (k *Switch) age(s *source, now time.Time) time.Duration {
	heard := s.heard.Load()
	if heard == 0 {
		return -1
	}
	return max(0, now.Sub(k.start)-time.Duration(heard-1))
}

// Guard admits a call or refuses it with *Tripped or *Stale. The context that it returns is cancelled with cause
// *Tripped when a revocation that covers s arrives. A call that runs already is not cut when the switch goes stale.
// The caller must call the function returned when the call ends; it may be called more than once, and is nil with an
// error. It also ends the context, with the cause given to it, so that a caller who has reasons of its own to end a call needs no
// context of its own for them. The caller must not change s.CapabilityClasses while the call runs.
func (k *Switch) Guard(ctx context.Context, s Scope) (context.Context, context.CancelCauseFunc, error) {
	s.Host = canonicalHost(s.Host)
	before := k.set.Load()
	if err := k.check(before, &s); err != nil {
		return nil, nil, err
	}
	guarded, cancel := context.WithCancelCause(ctx)
	c := &call{scope: s, cancel: cancel}
	k.running.add(c)
	// Apply publishes its set before it walks the running calls. A call that the walk missed was registered after
	// that, and sees the new set here.
	if after := k.set.Load(); after != before {
		if err := k.check(after, &s); err != nil {
			k.running.end(c, err)
			return nil, nil, err
		}
	}
	return guarded, func(cause error) { k.running.end(c, cause) }, nil
}

// Heard notes that the source was reached and had nothing new. It ignores an unknown source.
func (k *Switch) Heard(source string) {
	if s := k.source(source); s != nil {
		s.heard.Store(int64(k.now().Sub(k.start)) + 1)
	}
}

func (k *Switch) source(name string) *source {
	i, ok := slices.BinarySearchFunc(k.sources, name, func(s *source, name string) int {
		return strings.Compare(s.name, name)
	})
	if !ok {
		return nil
	}
	return k.sources[i]
}

// OnRevoke registers f to be called, after running calls were cancelled, with each revocation that is new or changed
// and has not expired. Apply calls f before it returns and holds no lock meanwhile. Not for use after the first Apply.
func (k *Switch) OnRevoke(f func(Revocation)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onRevoke = append(k.onRevoke, f)
}

// Status returns the present state.
func (k *Switch) Status() Status {
	now := k.now()
	st := Status{
		Revision: k.revision.Load(), Running: k.running.count(), Active: k.set.Load().count(now), Sources: map[string]time.Duration{},
	}
	for _, r := range risks {
		if !slices.Contains(k.goOn, r) {
			st.StaleRisks = append(st.StaleRisks, r)
		}
	}
	for _, s := range k.sources {
		st.Sources[s.name] = k.age(s, now)
	}
	if len(k.sources) > 0 {
		_, st.Age = k.oldest(now)
		st.Stale = k.maxStale > 0 && (st.Age < 0 || st.Age > k.maxStale)
	}
	return st
}

// Count returns how many running calls the selector covers; 0 for one that Validate refuses.
func (k *Switch) Count(s Selector) int {
	if s.Validate() != nil {
		return 0
	}
	s = s.clone()
	n := 0
	k.running.each(func(sc *Scope) {
		if s.covers(sc) {
			n++
		}
	})
	return n
}

// Row counts the running calls of one tool for one tenant.
type Row struct {
	Tool, Tenant string
	Calls        int
}

// Summary returns at most limit rows of running calls, the busiest first.
func (k *Switch) Summary(limit int) []Row {
	counts := map[[2]string]int{}
	k.running.each(func(sc *Scope) { counts[[2]string{sc.Tool, sc.Tenant}]++ })
	rows := make([]Row, 0, len(counts))
	for at, n := range counts {
		rows = append(rows, Row{at[0], at[1], n})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Tool, b.Tool), strings.Compare(a.Tenant, b.Tenant))
	})
	return rows[:min(limit, len(rows))]
}
