package killswitch

import (
	"fmt"
	"testing"
	"time"
)

// big returns a switch with n entries of mixed shapes, none of which covers quiet.
func big(tb testing.TB, n int) *Switch {
	k := New(time.Hour, "file")
	set := make([]Revocation, n)
	for i := range set {
		v := fmt.Sprint("v", i)
		s := Selector{Tool: []string{"draft_refund_request"}}
		switch i % 5 {
		case 0:
			s.Tenant = []string{v}
		case 1:
			s.Run = []string{v}
		case 2:
			s.Host = []string{"*." + v + ".example"}
		case 3:
			s.Subject, s.Risk = []string{v}, []string{"high"}
		case 4:
			s.Agent, s.Tenant = []string{v}, []string{"acme"}
		}
		set[i] = Revocation{ID: v, Selector: s, Expires: time.Now().Add(time.Hour)}
	}
	mustApply(tb, k, "file", set...)
	return k
}

func quiet() Scope {
	return Scope{Tool: "draft_refund_request", Version: "2026-06-17", Tenant: "acme", Subject: "user:alice", Agent: "agent-7",
		Task: "task-1", Run: "run-1", Risk: "high", CapabilityClasses: []string{"read_private", "write_side_effect"}, Host: "api.orders.example"}
}

func TestCheckAllocatesNothing(t *testing.T) {
	k, sc := big(t, 10_000), quiet()
	if n := testing.AllocsPerRun(100, func() {
		if err := k.Check(sc); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		k, sc := big(b, n), quiet()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := k.Check(sc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGuard(b *testing.B) {
	k, sc := big(b, 10_000), quiet()
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, end, err := k.Guard(ctx, sc)
			if err != nil {
				b.Fatal(err)
			}
			end(nil)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	k := big(b, 10_000)
	var set []Revocation
	for _, r := range k.set.Load().list {
		set = append(set, *r)
	}
	for i := 0; b.Loop(); i++ {
		set[0].Reason = fmt.Sprint(i)
		mustApply(b, k, "file", set...)
	}
}
