package killswitch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Effect is what a change of a source's set did.
type Effect struct {
	Changed bool
	Fresh   int // revocations that are new or changed, and in force
	Cut     int // running calls that were ended
}

// Apply replaces the set of one source, cancels the running calls that it covers before it returns, raises the revision
// if the set differs, and counts as hearing the source. What other sources revoke is untouched. An unknown source, an
// entry without id, an id twice and a selector that Validate refuses are errors, and change nothing.
func (k *Switch) Apply(source string, revocations []Revocation) (Effect, error) {
	effect, err := k.Enforce(source, revocations)
	if err == nil {
		k.Heard(source)
	}
	return effect, err
}

// Enforce is Apply without hearing the source: for a set that rules and may be an old one, such as one from disk.
func (k *Switch) Enforce(source string, revocations []Revocation) (Effect, error) {
	s := k.source(source)
	if s == nil {
		return Effect{}, fmt.Errorf("kill switch: unknown source %q", source)
	}
	entries, err := index(revocations)
	if err != nil {
		return Effect{}, fmt.Errorf("kill switch: source %q: %w", source, err)
	}
	fresh, effect := k.replace(s, entries)
	for _, r := range fresh {
		for _, f := range k.onRevoke {
			f(*r)
		}
	}
	return effect, nil
}

// index copies the revocations, so that the caller may reuse its slices, and keys them by id.
func index(revocations []Revocation) (map[string]*Revocation, error) {
	entries := make(map[string]*Revocation, len(revocations))
	for _, r := range revocations {
		if r.ID == "" {
			return nil, errors.New("a revocation has no id")
		}
		if entries[r.ID] != nil {
			return nil, fmt.Errorf("revocation %q stands there twice", r.ID)
		}
		if err := r.Selector.Validate(); err != nil {
			return nil, fmt.Errorf("revocation %q: %w", r.ID, err)
		}
		r.Selector = r.Selector.clone()
		entries[r.ID] = &r
	}
	return entries, nil
}

// replace puts the entries in force, cuts what they cover, and returns those that are new and in force.
func (k *Switch) replace(s *source, entries map[string]*Revocation) ([]*Revocation, Effect) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sameEntries(s.entries, entries) {
		return nil, Effect{}
	}
	var fresh []*Revocation
	now := k.now()
	for id, r := range entries {
		if !k.known(id, r) && !r.expired(now) {
			fresh = append(fresh, r)
		}
	}
	slices.SortFunc(fresh, byID)
	s.entries = entries
	k.set.Store(compile(k.union()))
	k.revision.Add(1)
	effect := Effect{Changed: true, Fresh: len(fresh)}
	if len(fresh) > 0 {
		c := clock{now: k.now}
		cut := compile(fresh)
		effect.Cut = k.running.cancel(func(sc *Scope) *Revocation { return cut.find(sc, &c) })
	}
	return fresh, effect
}

// known reports whether a source rules already by an entry equal to r.
func (k *Switch) known(id string, r *Revocation) bool {
	for _, s := range k.sources {
		if old := s.entries[id]; old != nil && same(old, r) {
			return true
		}
	}
	return false
}

// union returns the entries of all sources, by id. Equal entries of two sources count once; two sources may use one id
// for different entries, and then both rule.
func (k *Switch) union() []*Revocation {
	var all []*Revocation
	for i, s := range k.sources {
	next:
		for id, r := range s.entries {
			for _, earlier := range k.sources[:i] {
				if old := earlier.entries[id]; old != nil && same(old, r) {
					continue next
				}
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, byID)
	return all
}

func byID(a, b *Revocation) int { return strings.Compare(a.ID, b.ID) }

func sameEntries(a, b map[string]*Revocation) bool {
	if len(a) != len(b) {
		return false
	}
	for id, r := range a {
		if b[id] == nil || !same(r, b[id]) {
			return false
		}
	}
	return true
}

func same(a, b *Revocation) bool {
	return a.ID == b.ID && a.Reason == b.Reason && a.By == b.By && a.At.Equal(b.At) && a.Expires.Equal(b.Expires) &&
		a.Selector.equal(b.Selector)
}
