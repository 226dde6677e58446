package killswitch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// model is what two sources revoke, without any index.
type model [2]map[string]Revocation

func (m model) covers(sc Scope) bool {
	for _, entries := range m {
		for _, r := range entries {
			if r.Selector.Covers(sc) {
				return true
			}
		}
	}
	return false
}

// active counts equal entries of the two sources once.
func (m model) active() int {
	n := len(m[0])
	for id, r := range m[1] {
		if old, ok := m[0][id]; !ok || !same(&old, &r) {
			n++
		}
	}
	return n
}

func someSelector(r *rand.Rand) Selector {
	v := func(prefix string) []string {
		out := []string{prefix + fmt.Sprint(r.IntN(6))}
		if r.IntN(4) == 0 {
			out = append(out, prefix+fmt.Sprint(r.IntN(6)))
		}
		return out
	}
	switch r.IntN(8) {
	case 0:
		return Selector{Tool: v("t"), Tenant: v("x")}
	case 1:
		return Selector{Host: []string{"*.D" + fmt.Sprint(r.IntN(6)) + ".example"}}
	case 2:
		return Selector{Host: v("h"), Run: v("r")}
	case 3:
		return Selector{CapabilityClass: v("c"), Tool: v("t")}
	case 4:
		return Selector{Run: v("r"), Risk: []string{"high"}} // many under one value, few that cover
	case 5:
		return Selector{Agent: v("a"), Risk: []string{"high"}}
	default:
		return Selector{Run: v("r"), Tenant: v("x"), Agent: v("a")}
	}
}

func someScope(r *rand.Rand) Scope {
	v := func(prefix string) string { return prefix + fmt.Sprint(r.IntN(6)) }
	host := v("h")
	if r.IntN(2) == 0 {
		host = "api." + v("d") + ".example"
	}
	return Scope{Tool: v("t"), Tenant: v("x"), Run: v("r"), Agent: v("a"), Host: host, CapabilityClasses: []string{v("c")}, Risk: []string{"low", "high"}[r.IntN(2)]}
}

// However a set came about, in one piece or by many changes of two sources, it says what its entries say; and a set that a call holds
// never changes under it.
func TestChangesSayWhatTheEntriesSay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := [2]string{"a", "b"}
	k, m := New(0, names[:]...), model{{}, {}}
	type held struct {
		set  *set
		says map[int]bool
	}
	var past []held
	scopes := make([]Scope, 200)
	for i := range scopes {
		scopes[i] = someScope(r)
	}
	for step := range 600 {
		who := r.IntN(2)
		var put []Revocation
		var drop []string
		for range 1 + r.IntN(3) {
			id := fmt.Sprint("id", r.IntN(24))
			if r.IntN(2) == 0 {
				drop = append(drop, id)
				continue
			}
			one := revoke(id, someSelector(r))
			if twin, ok := m[1-who][id]; ok && r.IntN(2) == 0 {
				one = twin // both sources say the same
			}
			one.Selector = one.Selector.clone()
			if len(put) == 0 || put[0].ID != id {
				put = append(put[:0:0], one)
			}
		}
		for _, id := range drop {
			delete(m[who], id)
		}
		for _, one := range put {
			m[who][one.ID] = one
		}
		var err error
		if step%3 == 0 {
			var whole []Revocation
			for one := range maps.Values(m[who]) {
				whole = append(whole, one)
			}
			_, err = k.Enforce(names[who], whole)
		} else {
			_, err = k.Amend(names[who], put, drop)
		}
		if err != nil {
			t.Fatal(err)
		}
		now := held{k.set.Load(), map[int]bool{}}
		for i, sc := range scopes {
			got := k.Check(sc) != nil
			now.says[i] = got
			if want := m.covers(sc); got != want {
				t.Fatalf("step %d: %+v is refused: %v, want %v", step, sc, got, want)
			}
		}
		if got, want := k.Status().Active, m.active(); got != want {
			t.Fatalf("step %d: %d are in force, want %d", step, got, want)
		}
		if past = append(past, now); len(past) > 20 {
			past = past[1:]
		}
		for i := range scopes {
			if got := past[0].set.find(&scopes[i], &clock{now: time.Now}) != nil; got != past[0].says[i] {
				t.Fatalf("step %d: a set has changed after it was in force", step)
			}
		}
	}
	for i, name := range names {
		if _, err := k.Amend(name, nil, []string{"none"}); err != nil {
			t.Fatal(err)
		}
		mustApply(t, k, names[i])
	}
	if s := k.set.Load(); s.n != 0 || s.count(time.Now()) != 0 {
		t.Fatalf("%d are left", s.n)
	}
}

func TestAmend(t *testing.T) {
	k := New(0, "file", "nats")
	a, b := revoke("a", Selector{Tool: []string{"t"}}), revoke("b", Selector{All: true})
	mustApply(t, k, "file", a)
	revision := k.Status().Revision
	if e, err := k.Amend("nats", []Revocation{b}, nil); err != nil || e.Fresh != 1 || tripped(k.Check(Scope{Tool: "u"})) != "b" {
		t.Fatalf("%+v, %v", e, err)
	}
	if e, err := k.Amend("nats", []Revocation{b}, []string{"a", "nothing"}); err != nil || e.Changed {
		t.Fatalf("nothing new: %+v, %v", e, err)
	}
	if got := k.Status(); got.Revision != revision+1 || got.Active != 2 || got.Sources["nats"] >= 0 {
		t.Fatalf("%+v", got)
	}
	// What is put stays, also when the same id is to be dropped: denying wins.
	if e, err := k.Amend("nats", []Revocation{b}, []string{"b"}); err != nil || e.Changed {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := k.Amend("nats", []Revocation{{ID: "c"}}, []string{"b"}); err == nil || tripped(k.Check(Scope{Tool: "u"})) != "b" {
		t.Fatalf("a bad entry changed something, or was none: %v", err)
	}
	if _, err := k.Amend("nobody", nil, nil); err == nil {
		t.Fatal("unknown source: no error")
	}
	if e, err := k.Amend("nats", nil, []string{"b"}); err != nil || !e.Changed || k.Check(Scope{Tool: "u"}) != nil || tripped(k.Check(Scope{Tool: "t"})) != "a" {
		t.Fatalf("%+v, %v", e, err)
	}
}
