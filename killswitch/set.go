package killswitch

import (
	"slices"
	"strings"
	"time"
)

// set is the union of what all sources revoke, indexed for one quick look-up a call. It is never changed once it is in force;
// change makes the next one of it.
//
// Each revocation stands in the index under the values of a single field: the one under whose values the fewest others stood when it
// came. A call then meets only revocations that agree with it in at least that field.
type set struct {
	era   uint64
	n     int        // revocations
	byID  *shelf     // two sources may use one id for different ones
	index [10]*shelf // by the order of Selector.fields; hosts without "*."
	below *shelf     // hosts "*.x" by x
	all   []*Revocation
}

// hostField is the place of host in Selector.fields.
const hostField = 9

// compile builds a set. Entries must be valid and cloned.
func compile(list []*Revocation) *set { return new(set).change(nil, list) }

// change returns the set without those of drop, which are in it, and with those of add, which are not. It must be called on the
// newest set alone.
func (s *set) change(drop, add []*Revocation) *set {
	next := *s
	next.era++
	for _, r := range drop {
		next.remove(r)
	}
	for _, r := range add {
		next.add(r)
	}
	return &next
}

// place returns the shelf for a value of a field, and the value as it stands there.
func (s *set) place(field int, v string) (**shelf, string) {
	if rest, ok := strings.CutPrefix(v, "*."); ok && field == hostField {
		return &s.below, rest
	}
	return &s.index[field], v
}

func (s *set) add(r *Revocation) {
	s.n++
	s.byID = s.byID.with(s.era, r.ID, r)
	if r.Selector.All {
		s.all = append(s.all, r)
		return
	}
	best, least := -1, 0
	fields := r.Selector.fields()
	for i, f := range fields {
		n := 0
		for _, v := range f.values {
			h, v := s.place(i, v)
			n += len((*h).get(v))
		}
		if len(f.values) > 0 && (best < 0 || n < least) {
			best, least = i, n
		}
	}
	for _, v := range fields[best].values {
		h, v := s.place(best, v)
		*h = (*h).with(s.era, v, r)
	}
}

func (s *set) remove(r *Revocation) {
	s.n--
	s.byID = s.byID.without(s.era, r.ID, r)
	if i := slices.Index(s.all, r); i >= 0 {
		s.all = slices.Concat(s.all[:i], s.all[i+1:])
	}
	for i, f := range r.Selector.fields() {
		for _, v := range f.values {
			h, v := s.place(i, v)
			*h = (*h).without(s.era, v, r)
		}
	}
}

// equal returns the revocation of the set that equals r, or nil.
func (s *set) equal(r *Revocation) *Revocation {
	for _, old := range s.byID.get(r.ID) {
		if same(old, r) {
			return old
		}
	}
	return nil
}

// count returns how many are in force.
func (s *set) count(now time.Time) int {
	n := 0
	if s.byID == nil {
		return 0
	}
	for i := range s.byID.bucket {
		for _, rs := range s.byID.bucket[i].of {
			for _, r := range rs {
				if !r.expired(now) {
					n++
				}
			}
		}
	}
	return n
}

// clock reads the time at most once, and only for a call that needs it.
type clock struct {
	now  func() time.Time
	read time.Time
}

func (c *clock) time() time.Time {
	if c.read.IsZero() {
		c.read = c.now()
	}
	return c.read
}

// find returns a revocation in force that covers sc, whose host is canonical, or nil.
func (s *set) find(sc *Scope, c *clock) *Revocation {
	if s.n == 0 {
		return nil
	}
	if r := first(s.all, sc, c); r != nil {
		return r
	}
	for i, v := range [...]string{sc.Tool, sc.Version, sc.Tenant, sc.Subject, sc.Agent, sc.Task, sc.Run, "", sc.Risk, sc.Host} {
		if v == "" || s.index[i] == nil {
			continue
		}
		if r := first(s.index[i].get(v), sc, c); r != nil {
			return r
		}
	}
	if m := s.index[classField]; m != nil {
		for _, class := range sc.CapabilityClasses {
			if r := first(m.get(class), sc, c); r != nil {
				return r
			}
		}
	}
	if s.below == nil {
		return nil
	}
	for host := sc.Host; ; {
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return nil
		}
		if r := first(s.below.get(rest), sc, c); r != nil {
			return r
		}
		host = rest
	}
}

// classField is the place of capabilityClass in Selector.fields.
const classField = 7

func first(rs []*Revocation, sc *Scope, c *clock) *Revocation {
	for _, r := range rs {
		if r.Selector.covers(sc) && (r.Expires.IsZero() || !r.expired(c.time())) {
			return r
		}
	}
	return nil
}
