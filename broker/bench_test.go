package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// BenchmarkHit is the way of nearly every call: find the binding, take from the cache.
func BenchmarkHit(b *testing.B) {
	for name, actor := range map[string]bool{"plain": false, "actor": true} {
		b.Run(name, func(b *testing.B) {
			s := newTokenServer(b, nil)
			bd := exchangeBinding(s.URL)
			if actor {
				bd.TokenExchange.Impersonate = false
				bd.TokenExchange.ActorTokenFile = writeFile(b, actorSecret)
				ageFile(b, bd.TokenExchange.ActorTokenFile)
			}
			br, found := mustNew(b, bd, Options{})
			sub := alice()
			sub.Token = redact.New(strings.Repeat("t", 800))
			sub.TokenHash = hashOf(sub.Token.Reveal()) // which its verification had to know
			if _, err := br.Credential(b.Context(), found, sub); err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			b.ReportAllocs()
			runtime.GC() // what is left of the preparation must not be charged to the hits
			before, i := processCPU(b), 0
			for ; b.Loop(); i++ {
				if _, err := br.Credential(ctx, br.Find("orders_tool", "api.orders.test", 443), sub); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processCPU(b)-before)/float64(i), "cpu-ns/op")
		})
	}
}

func processCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHeld is what 100,000 cached credentials hold, each of a caller, task, run and token of its own.
func BenchmarkHeld(b *testing.B) {
	const n = 100_000
	for _, size := range []int{43, 350, 900} { // opaque; a small JWT; a large one
		b.Run(fmt.Sprint("token=", size), func(b *testing.B) {
			for b.Loop() {
				at := heap()
				br := hold(b, n, size)
				b.ReportMetric(float64(heap()-at)/1e6, "held-MB")
				if br.cache.good.Len() != n {
					b.Fatal(br.cache.good.Len())
				}
			}
		})
	}
}

// hold returns a broker with n cached credentials of that many bytes each.
func hold(b testing.TB, n, size int) *Broker {
	scopes := strings.Fields("orders:read orders:write")
	random := letters{rand.New(rand.NewPCG(1, 2))}
	br, bd := withIssuer(b, Options{CacheSize: n}, funcIssuer(func(_ context.Context, s Subject) (*Credential, error) {
		ref := Ref{Binding: "orders", Kind: "token_exchange", Audience: "https://api.orders.test", Scopes: scopes, Expires: time.Now().Add(time.Hour)}
		return newCredential(ref, "Authorization", "Bearer ", random.text(size)), nil
	}))
	for i := range n {
		s := alice()
		s.Issuer, s.Tenant, s.Agent = strings.Clone(s.Issuer), fmt.Sprint("tenant-", i%50), fmt.Sprint("agent-", i%200) // as from tokens of their own
		s.Subject, s.Task, s.Run = fmt.Sprint("user:caller-", i, "@example.test"), fmt.Sprintf("task-%032d", i), fmt.Sprintf("run-%032d", i)
		s.TokenID = fmt.Sprintf("%036d", i)
		s.Token = redact.New(s.TokenID)
		if _, err := br.Credential(b.Context(), bd, s); err != nil {
			b.Fatal(err)
		}
	}
	return br
}

type letters struct{ *rand.Rand }

func (l letters) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[l.IntN(64)]
	}
	return string(b)
}

func heap() uint64 {
	var m runtime.MemStats
	for range 3 { // handles of package unique and finalizers take more than one
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestHitDoesNotAllocate(t *testing.T) {
	br, bd := mustNew(t, exchangeBinding(newTokenServer(t, nil).URL), Options{})
	sub := alice()
	mustGet(t, br, bd, sub)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = br.Credential(ctx, bd, sub) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A credential takes what is its own, the token and who it is for, and about a kilobyte by which it is known in all its forms where
// something is logged.
func TestHeldIsSmall(t *testing.T) {
	const n, heldToken = 5000, 400
	at := heap()
	br := hold(t, n, heldToken)
	if per := (heap() - at) / n; per > 1750+heldToken {
		t.Errorf("%d bytes for a credential of %d", per, heldToken)
	}
	runtime.KeepAlive(br)
}

func BenchmarkApply(b *testing.B) {
	c := newCredential(Ref{}, "Authorization", "Bearer ", issuedSecret)
	out := &http.Request{Header: http.Header{"Accept": {"*/*"}, "User-Agent": {"x"}, "Authorization": {"tool"}, "Content-Type": {"x"}}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Apply(out, nil)
	}
}
