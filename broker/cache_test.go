package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// counting gives a new credential, good for life, at each call.
func counting(n *atomic.Int64, life time.Duration, now func() time.Time) funcIssuer {
	return func(context.Context, Subject) (*Credential, error) {
		i := n.Add(1)
		if life == 0 {
			return fresh(fmt.Sprint("token-", i), time.Time{}), nil
		}
		return fresh(fmt.Sprint("token-", i), now().Add(life)), nil
	}
}

func mustGet(t *testing.T, b *Broker, bd *Binding, s Subject) *Credential {
	t.Helper()
	c, err := b.Credential(t.Context(), bd, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCachedUntilItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		life    time.Duration // of the credential; 0: not told
		subject time.Duration // of the subject token; 0: not told
		maxTTL  time.Duration
		want    time.Duration // how long it is served from the cache
	}{
		"its own end less 30 s":     {10 * time.Minute, 2 * time.Hour, 0, 10*time.Minute - 30*time.Second},
		"a short one less a tenth":  {time.Minute, time.Hour, 0, 54 * time.Second},
		"the subject token's":       {time.Hour, 10 * time.Minute, 0, 10*time.Minute - 30*time.Second},
		"the default cap":           {12 * time.Hour, 12 * time.Hour, 0, 15*time.Minute - 30*time.Second},
		"the binding's cap":         {12 * time.Hour, 12 * time.Hour, time.Minute, 54 * time.Second},
		"own end unknown: never":    {0, time.Hour, 0, 0},
		"subject's unknown: never":  {time.Hour, 0, 0, 0},
		"a second less a tenth too": {time.Second, time.Hour, 0, 900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{true, false} { // with a broker each: what is asked for just before its end is asked for anew meanwhile
				clk, n := newClock(), new(atomic.Int64)
				count := counting(n, c.life, clk.now)
				b, bd := withIssuer(t, Options{Now: clk.now}, funcIssuer(func(ctx context.Context, s Subject) (*Credential, error) {
					if before && n.Load() > 0 {
						<-ctx.Done()
						return nil, newError("orders", Cancelled)
					}
					return count(ctx, s)
				}))
				b.bound[bd].maxTTL = orElse(c.maxTTL, 15*time.Minute)
				s := alice()
				s.Expiry = time.Time{}
				if c.subject != 0 {
					s.Expiry = clk.now().Add(c.subject)
				}
				if got := mustGet(t, b, bd, s); got.Ref().Cached {
					t.Error("the first one is marked as cached")
				}
				switch {
				case !before:
					clk.advance(c.want)
					if got := mustGet(t, b, bd, s); got.Ref().Cached || n.Load() != 2 {
						t.Errorf("after: cached %v, %d requests", got.Ref().Cached, n.Load())
					}
				case c.want > 0:
					clk.advance(c.want - time.Millisecond)
					if got := mustGet(t, b, bd, s); !got.Ref().Cached || n.Load() != 1 {
						t.Errorf("just before: cached %v, %d requests", got.Ref().Cached, n.Load())
					}
				}
			}
		})
	}
}

// The life counts from when the request was sent: an answer that was long on its way is so much older.
func TestLifeCountsFromTheRequest(t *testing.T) {
	clk, n := newClock(), 0
	b, bd := withIssuer(t, Options{Now: clk.now}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
		n++
		c := fresh("v", clk.now().Add(20*time.Minute))
		clk.advance(10 * time.Minute)
		return c, nil
	}))
	mustGet(t, b, bd, alice())
	clk.advance(4*time.Minute + 29*time.Second)
	mustGet(t, b, bd, alice())
	if n != 1 {
		t.Fatalf("%d requests before the cap of 15 min", n)
	}
	clk.advance(time.Second)
	mustGet(t, b, bd, alice())
	if n != 2 {
		t.Errorf("%d requests after the cap", n)
	}
}

func TestOverBeforeUse(t *testing.T) {
	clk := newClock()
	b, bd := withIssuer(t, Options{Now: clk.now}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
		c := fresh("v", clk.now().Add(time.Second))
		clk.advance(time.Second)
		return c, nil
	}))
	_, err := b.Credential(t.Context(), bd, alice())
	wantReason(t, err, Expired)
}

func TestNothingIsShared(t *testing.T) {
	variants := map[string]func(*Subject){
		"issuer": func(s *Subject) { s.Issuer = "https://other.test" }, "subject": func(s *Subject) { s.Subject = "user:bob" },
		"tenant": func(s *Subject) { s.Tenant = "other" }, "agent": func(s *Subject) { s.Agent = "other" },
		"task": func(s *Subject) { s.Task = "other" }, "run": func(s *Subject) { s.Run = "other" },
		"jti": func(s *Subject) { s.TokenID = "jti-2" }, "token": func(s *Subject) { s.Token = redact.New("weaker") },
		"tool": func(s *Subject) { s.Tool = "second_tool" }, "version": func(s *Subject) { s.Version = "2" },
		"scopes":            func(s *Subject) { s.RequiredScopes = []string{"orders:write"} },
		"no tenant":         func(s *Subject) { s.Tenant = "" },
		"border one":        func(s *Subject) { s.Tenant, s.Agent = "a", "bc" },
		"border two":        func(s *Subject) { s.Tenant, s.Agent = "ab", "c" },
		"token hash":        func(s *Subject) { s.TokenHash = hashOf("of another token") },
		"as it was":         func(*Subject) {},
		"scopes not united": func(s *Subject) { s.RequiredScopes = []string{"orders:read", "orders:write"} },
	}
	n := new(atomic.Int64)
	bd := exchangeBinding("http://127.0.0.1:1/token")
	bd.Tools = append(bd.Tools, "second_tool")
	b, found := mustNew(t, bd, Options{})
	b.bound[found].issuer = counting(n, time.Hour, time.Now)
	base, seen := alice(), map[string]string{}
	for name, change := range variants {
		s := base
		change(&s)
		v := mustGet(t, b, found, s).value.Reveal()
		if other := seen[v]; other != "" {
			t.Errorf("%q and %q share a credential", name, other)
		}
		seen[v] = name
	}
	for name, change := range variants {
		s := base
		change(&s)
		if v := mustGet(t, b, found, s).value.Reveal(); seen[v] != name {
			t.Errorf("%q was given the credential of %q", name, seen[v])
		}
	}
}

// Two keys may come to one place in the cache. The later one takes it; neither gets what is the other's.
func TestNothingIsSharedAtOnePlace(t *testing.T) {
	n := new(atomic.Int64)
	fail := false
	b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, s Subject) (*Credential, error) {
		if n.Add(1); fail {
			return nil, newError("orders", InvalidGrant)
		}
		return fresh("token of "+s.Subject, time.Now().Add(time.Hour)), nil
	}))
	b.cache.place = func(Key) uint64 { return 7 }
	bob := alice()
	bob.Subject = "user:bob"
	for _, s := range []Subject{alice(), bob, alice(), bob} {
		if c := mustGet(t, b, bd, s); c.value.Reveal() != "token of "+s.Subject {
			t.Errorf("%s got %s", s.Subject, c.value.Reveal())
		}
	}
	b.Drop(func(Key) bool { return true })
	fail = true
	_, err := b.Credential(t.Context(), bd, alice())
	wantReason(t, err, InvalidGrant)
	fail = false
	mustGet(t, b, bd, bob) // whose failure it was not
}

// A hash that is given is the one that would have been made.
func TestKeyTakesTheHash(t *testing.T) {
	b, found := mustNew(t, exchangeBinding("http://127.0.0.1:1/token"), Options{})
	s := alice()
	made, err1 := b.key(b.bound[found], &s)
	s.TokenHash = sha256.Sum256([]byte(s.Token.Reveal()))
	given, err2 := b.key(b.bound[found], &s)
	if err1 != nil || err2 != nil || made != given || made.TokenHash == (Hash{}) {
		t.Errorf("%v %v %v", made == given, err1, err2)
	}
}

// What the configuration chooses is in the key too, as are the workload's token and the revision.
func TestKeyHoldsTheConfiguration(t *testing.T) {
	keyOf := func(o Options, change func(*Binding)) Key {
		bd := exchangeBinding("http://127.0.0.1:1/token")
		change(&bd)
		b, found := mustNew(t, bd, o)
		s := alice()
		k, err := b.key(b.bound[found], &s)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := func(*Binding) {}
	base := keyOf(Options{Generation: "g1"}, same)
	if again := keyOf(Options{Generation: "g1"}, same); again != base {
		t.Error("equal inputs give unequal keys")
	}
	for name, k := range map[string]Key{
		"generation": keyOf(Options{Generation: "g2"}, same),
		"name":       keyOf(Options{Generation: "g1"}, func(b *Binding) { b.Name = "n" }),
		"audience":   keyOf(Options{Generation: "g1"}, func(b *Binding) { b.TokenExchange.Audience = "https://x.test" }),
		"resource":   keyOf(Options{Generation: "g1"}, func(b *Binding) { b.TokenExchange.Resource = "https://x.test/" }),
		"scopes":     keyOf(Options{Generation: "g1"}, func(b *Binding) { b.TokenExchange.Scopes = []string{"x"} }),
		"client":     keyOf(Options{Generation: "g1"}, func(b *Binding) { b.TokenExchange.ClientAuth.ClientID = "x" }),
		"type":       keyOf(Options{Generation: "g1"}, func(b *Binding) { b.TokenExchange.RequestedType = typeJWT }),
		"workload": keyOf(Options{Generation: "g1"}, func(b *Binding) {
			b.TokenExchange.Impersonate, b.TokenExchange.ActorTokenFile = false, writeFile(t, "w1")
		}),
	} {
		if k == base {
			t.Errorf("%s is not in the key", name)
		}
	}
}

func TestScopeOrderDoesNotMatter(t *testing.T) {
	n := new(atomic.Int64)
	b, bd := withIssuer(t, Options{}, counting(n, time.Hour, time.Now))
	for _, scopes := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c", "a"}} {
		s := alice()
		s.Expiry, s.RequiredScopes = time.Unix(1<<40, 0), scopes
		mustGet(t, b, bd, s)
	}
	if n.Load() != 1 {
		t.Errorf("%d requests", n.Load())
	}
}

func TestNegative(t *testing.T) {
	for name, c := range map[string]struct {
		err  Error
		want time.Duration // until the issuer is asked again
	}{
		"denied":               {Error{Reason: InvalidScope}, negativeDenied},
		"temporary":            {Error{Reason: ServerError, Temporary: true}, negativeMin},
		"told to wait":         {Error{Reason: RateLimited, Temporary: true, RetryAfter: 12 * time.Second}, 12 * time.Second},
		"told to wait long":    {Error{Reason: RateLimited, Temporary: true, RetryAfter: time.Hour}, negativeMax},
		"unreadable: not kept": {Error{Reason: SecretUnreadable, Temporary: true}, 0},
		"overloaded: not kept": {Error{Reason: Overloaded, Temporary: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clk, n := newClock(), 0
			b, bd := withIssuer(t, Options{Now: clk.now}, funcIssuer(func(_ context.Context, s Subject) (*Credential, error) {
				if s.Subject != "user:alice" {
					return fresh("v", clk.now().Add(time.Hour)), nil
				}
				n++
				e := c.err
				e.Binding = "orders"
				return nil, &e
			}))
			ask := func(after time.Duration) {
				clk.advance(after)
				_, err := b.Credential(t.Context(), bd, alice())
				e := wantReason(t, err, c.err.Reason)
				if c.err.Temporary && c.want > 0 && (e.RetryAfter <= 0 || e.RetryAfter > c.want) {
					t.Errorf("retry after %v", e.RetryAfter)
				}
			}
			ask(0)
			if c.want > 0 {
				ask(c.want - time.Millisecond)
				if n != 1 {
					t.Errorf("%d requests before the end", n)
				}
				bob := alice()
				bob.Subject = "user:bob"
				mustGet(t, b, bd, bob)
				clk.advance(time.Millisecond)
			}
			ask(0)
			if n != 2 {
				t.Errorf("%d requests after the end", n)
			}
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	n, evicted := new(atomic.Int64), new(atomic.Int64)
	b, bd := withIssuer(t, Options{CacheSize: 3, Observe: func(e Event) {
		if e.Result == "evict" {
			evicted.Add(1)
		}
	}}, funcIssuer(func(_ context.Context, s Subject) (*Credential, error) {
		if s.Task == "bad" {
			return nil, newError("orders", InvalidGrant)
		}
		n.Add(1)
		return fresh("v", time.Now().Add(time.Hour)), nil
	}))
	for i := range 10 {
		s := alice()
		s.TokenID = fmt.Sprint(i)
		mustGet(t, b, bd, s)
	}
	for i := range 10 {
		s := alice()
		s.TokenID, s.Task = fmt.Sprint(i), "bad"
		_, err := b.Credential(t.Context(), bd, s)
		wantReason(t, err, InvalidGrant)
	}
	eventually(t, func() bool { return evicted.Load() >= 7 }) // told after the caller has its credential
	if b.cache.good.Len() != 3 || b.cache.bad.Len() != 3 || evicted.Load() != 7 {
		t.Errorf("%d credentials, %d failures, %d evictions", b.cache.good.Len(), b.cache.bad.Len(), evicted.Load())
	}
	s := alice()
	s.TokenID = "9"
	if mustGet(t, b, bd, s); n.Load() != 10 {
		t.Error("failures pushed out a credential")
	}
}

func TestEvents(t *testing.T) {
	clk := newClock()
	var mu sync.Mutex
	var got []string
	fail := false
	b, bd := withIssuer(t, Options{Now: clk.now, Observe: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(e.Binding, " ", e.Name, " ", e.Result, " ", e.Duration))
	}}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
		clk.advance(time.Second)
		if fail {
			return nil, newError("orders", InvalidScope)
		}
		return fresh("v", clk.now().Add(time.Hour)), nil
	}))
	mustGet(t, b, bd, alice())
	mustGet(t, b, bd, alice())
	b.Drop(func(Key) bool { return true })
	fail = true
	for range 2 {
		if _, err := b.Credential(t.Context(), bd, alice()); err == nil {
			t.Error("no error")
		}
	}
	want := "[orders cache miss 0s orders exchange ok 1s orders cache hit 0s orders cache drop 0s" +
		" orders cache miss 0s orders exchange invalid_scope 1s orders cache negative 0s]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestTwentyCallersOneRequest(t *testing.T) {
	for name, fails := range map[string]bool{"good": false, "failing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := new(atomic.Int64)
				b, bd := withIssuer(t, Options{}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
					n.Add(1)
					time.Sleep(time.Second) // the bubble's clock
					if fails {
						return nil, newError("orders", InvalidGrant)
					}
					return fresh("v", time.Now().Add(time.Hour)), nil
				}))
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						if _, err := b.Credential(t.Context(), bd, alice()); (err != nil) != fails {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if n.Load() != 1 {
					t.Errorf("%d requests", n.Load())
				}
			})
		})
	}
}

func TestWaitersLeaveAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, _ Subject) (*Credential, error) {
			select {
			case <-time.After(time.Second):
				return fresh("v", time.Now().Add(time.Hour)), nil
			case <-ctx.Done():
				return nil, newError("orders", Cancelled)
			}
		}))
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			begin := time.Now()
			_, err := b.Credential(first, bd, alice())
			if !errors.Is(err, context.Canceled) || time.Since(begin) != 100*time.Millisecond {
				t.Errorf("the first caller got %v after %v", err, time.Since(begin))
			}
		})
		synctest.Wait() // the flight is the first caller's
		for i := range 19 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*100*time.Millisecond)
				defer cancel()
				_, err := b.Credential(ctx, bd, alice())
				if late := i+1 > 10; late != (err == nil) && i+1 != 10 {
					t.Errorf("caller %d got %v", i, err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		leave()
		wg.Wait()
	})
}

// A flight that nobody waits for any more still ends, and its answer is of use to the next caller.
func TestFlightOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, _ Subject) (*Credential, error) {
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				return nil, newError("orders", Cancelled)
			}
			return fresh("v", time.Now().Add(time.Hour)), nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.Credential(ctx, bd, alice()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(2 * time.Second)
		if c := mustGet(t, b, bd, alice()); !c.Ref().Cached {
			t.Error("the answer was lost")
		}
	})
}

func TestFlightHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, _ Subject) (*Credential, error) {
			<-ctx.Done()
			return nil, newError("orders", Timeout)
		}))
		begin := time.Now()
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, Timeout)
		if d := time.Since(begin); d != 21*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}
