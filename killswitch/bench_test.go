package killswitch

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
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
			cpu := measureCPU(b)
			for b.Loop() {
				if err := k.Check(sc); err != nil {
					b.Fatal(err)
				}
			}
			cpu()
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

// BenchmarkAmend is what one live revocation costs a sidecar, and its restoration. It must not grow with the set.
func BenchmarkAmend(b *testing.B) {
	one := revoke("one", Selector{Tool: []string{"other"}, Tenant: []string{"acme"}})
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := big(b, n)
			b.ReportAllocs()
			cpu := measureCPU(b)
			for b.Loop() {
				if e, err := k.Amend("file", []Revocation{one}, nil); err != nil || e.Fresh != 1 {
					b.Fatal(e, err)
				}
				if e, err := k.Amend("file", nil, []string{"one"}); err != nil || !e.Changed {
					b.Fatal(e, err)
				}
			}
			cpu()
		})
	}
}

// BenchmarkApplyOne is one entry that comes to a set or goes where the source gives its whole set each time, as a file does.
func BenchmarkApplyOne(b *testing.B) {
	k := big(b, 10_000)
	set := entries(k)
	one := append(slices.Clone(set), revoke("one", Selector{Tool: []string{"other"}, Tenant: []string{"acme"}}))
	defer measureCPU(b)()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			mustApply(b, k, "file", one...)
		} else {
			mustApply(b, k, "file", set...)
		}
	}
}

// BenchmarkApplyAll is a set that comes whole, such as a checkpoint.
func BenchmarkApplyAll(b *testing.B) {
	set := entries(big(b, 10_000))
	defer measureCPU(b)()
	for b.Loop() {
		mustApply(b, New(0, "file"), "file", set...)
	}
}

func entries(k *Switch) (set []Revocation) {
	for _, r := range k.sources[0].entries {
		set = append(set, *r)
	}
	return set
}

// measureCPU reports, when the function that it returns is called, the CPU time of an operation: unlike the wall's, it says the same
// on a busy machine.
func measureCPU(b *testing.B) func() {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	runtime.GC() // what is left of the preparation must not be charged to the operations
	before := now()
	return func() { b.ReportMetric(float64(now()-before)/float64(b.N), "cpu-ns/op") }
}
