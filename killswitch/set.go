package killswitch

import (
	"strings"
	"time"
)

// set is the union of what all sources revoke, indexed for one quick look-up a call. It is never changed once made.
//
// Each revocation stands in the index under the values of a single field: the one whose values the fewest other
// revocations share. A call then meets only revocations that agree with it in at least that field.
type set struct {
	list  []*Revocation
	index [10]map[string][]*Revocation // by the order of Selector.fields; hosts without "*."
	below map[string][]*Revocation     // hosts "*.x" by x
	all   []*Revocation
}

// hostField is the place of host in Selector.fields.
const hostField = 9

// compile builds the set. Entries must be valid and cloned.
func compile(list []*Revocation) *set {
	type key struct {
		field int
		value string
	}
	count := map[key]int{}
	for _, r := range list {
		for i, f := range r.Selector.fields() {
			for _, v := range f.values {
				count[key{i, v}]++
			}
		}
	}
	s := &set{list: list}
	for _, r := range list {
		if r.Selector.All {
			s.all = append(s.all, r)
			continue
		}
		best, least := -1, 0
		fields := r.Selector.fields()
		for i, f := range fields {
			n := 0
			for _, v := range f.values {
				n += count[key{i, v}]
			}
			if n > 0 && (best < 0 || n < least) {
				best, least = i, n
			}
		}
		s.add(best, fields[best].values, r)
	}
	return s
}

func (s *set) add(field int, values []string, r *Revocation) {
	for _, v := range values {
		m := &s.index[field]
		if rest, ok := strings.CutPrefix(v, "*."); ok && field == hostField {
			m, v = &s.below, rest
		}
		if *m == nil {
			*m = map[string][]*Revocation{}
		}
		(*m)[v] = append((*m)[v], r)
	}
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
	if len(s.list) == 0 {
		return nil
	}
	if r := first(s.all, sc, c); r != nil {
		return r
	}
	for i, v := range [...]string{sc.Tool, sc.Version, sc.Tenant, sc.Subject, sc.Agent, sc.Task, sc.Run, "", sc.Risk, sc.Host} {
		if v == "" || s.index[i] == nil {
			continue
		}
		if r := first(s.index[i][v], sc, c); r != nil {
			return r
		}
	}
	if m := s.index[classField]; m != nil {
		for _, class := range sc.CapabilityClasses {
			if r := first(m[class], sc, c); r != nil {
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
		if r := first(s.below[rest], sc, c); r != nil {
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
