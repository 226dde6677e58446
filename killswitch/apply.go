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
func (k *Switch) Enforce(name string, revocations []Revocation) (Effect, error) {
	return k.change(name, revocations, func(s *source, put map[string]*Revocation) (drop []string) {
		for id := range s.entries {
			if put[id] == nil {
				drop = append(drop, id)
			}
		}
		return drop
	})
}

// Amend is Enforce of the source's set with some entries put in, in place of those with the same id, and those with the ids of drop
// taken out. What it costs does not grow with the set.
func (k *Switch) Amend(name string, put []Revocation, drop []string) (Effect, error) {
	return k.change(name, put, func(*source, map[string]*Revocation) []string { return drop })
}

func (k *Switch) change(name string, revocations []Revocation, drop func(*source, map[string]*Revocation) []string) (Effect, error) {
	s := k.source(name)
	if s == nil {
		return Effect{}, fmt.Errorf("kill switch: unknown source %q", name)
	}
	k.mu.Lock()
	put, err := s.index(revocations)
	if err != nil {
		k.mu.Unlock()
		return Effect{}, fmt.Errorf("kill switch: source %q: %w", name, err)
	}
	fresh, effect := k.replace(s, put, drop(s, put))
	k.mu.Unlock()
	for _, r := range fresh {
		for _, f := range k.onRevoke {
			f(*r)
		}
	}
	return effect, nil
}

// index copies the revocations, so that the caller may reuse its slices, and keys them by id. Those that the source has already are
// the same pointers afterwards. The caller holds Switch.mu.
func (s *source) index(revocations []Revocation) (map[string]*Revocation, error) {
	entries := make(map[string]*Revocation, len(revocations))
	for i := range revocations {
		r := &revocations[i]
		if r.ID == "" {
			return nil, errors.New("a revocation has no id")
		}
		if entries[r.ID] != nil {
			return nil, fmt.Errorf("revocation %q stands there twice", r.ID)
		}
		old := s.entries[r.ID]
		if old == nil || !same(old, r) {
			if err := r.Selector.Validate(); err != nil {
				return nil, fmt.Errorf("revocation %q: %w", r.ID, err)
			}
			copied := *r
			copied.Selector = r.Selector.clone()
			if old == nil || !same(old, &copied) { // hosts are canonical now
				old = &copied
			}
		}
		entries[r.ID] = old
	}
	return entries, nil
}

// replace puts entries in force and takes those of drop out, cuts what they cover, and returns those that are new and in force. The
// caller holds mu.
func (k *Switch) replace(s *source, put map[string]*Revocation, drop []string) ([]*Revocation, Effect) {
	before := k.set.Load()
	changed := false
	var add, gone []*Revocation
	set := func(id string, r *Revocation) {
		old := s.entries[id]
		if old == r {
			return
		}
		changed = true
		delete(s.entries, id)
		if r != nil {
			s.entries[id] = r
		}
		if old != nil && !k.ruled(old) {
			gone = append(gone, old)
		}
	}
	for id, r := range put {
		if s.entries[id] == r {
			continue
		}
		if known := before.equal(r); known != nil { // another source's
			r = known
		} else {
			add = append(add, r)
		}
		set(id, r)
	}
	for _, id := range drop {
		if put[id] == nil {
			set(id, nil)
		}
	}
	if !changed {
		return nil, Effect{}
	}
	slices.SortFunc(add, byID)
	k.set.Store(before.change(gone, add))
	k.revision.Add(1)
	now := k.now()
	fresh := slices.DeleteFunc(slices.Clone(add), func(r *Revocation) bool { return r.expired(now) })
	effect := Effect{Changed: true, Fresh: len(fresh)}
	if len(fresh) > 0 {
		c := clock{now: k.now}
		cut := compile(fresh)
		effect.Cut = k.running.cancel(func(sc *Scope) *Revocation { return cut.find(sc, &c) })
	}
	return fresh, effect
}

// ruled reports whether r is an entry of a source. Equal entries of two sources are one, and count once.
func (k *Switch) ruled(r *Revocation) bool {
	return slices.ContainsFunc(k.sources, func(s *source) bool { return s.entries[r.ID] == r })
}

func byID(a, b *Revocation) int { return strings.Compare(a.ID, b.ID) }

func same(a, b *Revocation) bool {
	return a.ID == b.ID && a.Reason == b.Reason && a.By == b.By && a.At.Equal(b.At) && a.Expires.Equal(b.Expires) &&
		a.Selector.equal(&b.Selector)
}
