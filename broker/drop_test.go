package broker

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestDrop(t *testing.T) {
	n := new(atomic.Int64)
	b, bd := withIssuer(t, Options{}, counting(n, time.Hour, time.Now))
	a, bob := alice(), alice()
	bob.Subject = "user:bob"
	mustGet(t, b, bd, a)
	mustGet(t, b, bd, bob)
	if got := b.Drop(func(k Key) bool { return k.Subject == "user:alice" }); got != 1 {
		t.Errorf("dropped %d", got)
	}
	if c := mustGet(t, b, bd, bob); !c.Ref().Cached {
		t.Error("bob's was dropped too")
	}
	if c := mustGet(t, b, bd, a); c.Ref().Cached {
		t.Error("alice's was kept")
	}
	if got := b.Drop(func(Key) bool { return false }); got != 0 {
		t.Errorf("dropped %d", got)
	}
}

// A failure that a revocation caused must not answer for the time after it was lifted.
func TestDropForgetsFailures(t *testing.T) {
	n := 0
	b, bd := withIssuer(t, Options{}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
		n++
		return nil, newError("orders", InvalidGrant)
	}))
	for range 2 {
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, InvalidGrant)
		if got := b.Drop(func(Key) bool { return true }); got != 0 {
			t.Errorf("a failure counts as %d credentials", got)
		}
	}
	if n != 2 {
		t.Errorf("%d requests", n)
	}
}

// The issuer has the answer on its way when Drop comes, and does not heed its context.
func TestDropInFlightIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(atomic.Int64)
		b, bd := withIssuer(t, Options{}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
			i := n.Add(1)
			time.Sleep(time.Second)
			return fresh(map[int64]string{1: "before", 2: "after"}[i], time.Now().Add(time.Hour)), nil
		}))
		killed, kill := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Credential(killed, bd, alice()); !errors.Is(err, context.Canceled) {
				t.Errorf("the killed caller got %v", err)
			}
		})
		wg.Go(func() { // shares the key, but no revocation covers it
			if c, err := b.Credential(t.Context(), bd, alice()); err != nil || c.value.Reveal() != "after" {
				t.Errorf("the other caller got %v, %v", c, err)
			}
		})
		synctest.Wait()
		kill()
		b.Drop(func(Key) bool { return true })
		time.Sleep(1500 * time.Millisecond) // the first request has ended, the second has not
		if n := b.cache.good.Len(); n != 0 {
			t.Errorf("%d credentials stored", n)
		}
		wg.Wait()
		if c := mustGet(t, b, bd, alice()); c.value.Reveal() != "after" || !c.Ref().Cached {
			t.Errorf("stored %v", c.Ref())
		}
	})
}

func TestDropCancelsTheRequestOnlyOfWhatMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, s Subject) (*Credential, error) {
			select {
			case <-ctx.Done():
				return nil, newError("orders", Cancelled)
			case <-time.After(time.Second):
				return fresh(s.Subject, time.Now().Add(time.Hour)), nil
			}
		}))
		bob := alice()
		bob.Subject = "user:bob"
		var wg sync.WaitGroup
		wg.Go(func() {
			begin := time.Now()
			if c, err := b.Credential(t.Context(), bd, bob); err != nil || time.Since(begin) != time.Second {
				t.Errorf("bob got %v, %v after %v", c, err, time.Since(begin))
			}
		})
		wg.Go(func() {
			_, err := b.Credential(t.Context(), bd, alice())
			wantReason(t, err, Cancelled)
		})
		for range 2 { // the request and its one repetition
			synctest.Wait()
			b.Drop(func(k Key) bool { return k.Subject == "user:alice" })
		}
		wg.Wait()
	})
}

// keyed calls a function when it is asked for a key, which is between the look at the call and the look at the cache.
type keyed struct {
	funcIssuer
	then func()
}

func (k keyed) Key(s Subject) (Key, error) {
	k.then()
	return k.funcIssuer.Key(s)
}

// A call that is cut on its way to its issuer gets there no more: what it brought would be nobody's, and no revocation would find it.
func TestNothingIsAskedForAfterDrop(t *testing.T) {
	n := new(atomic.Int64)
	ctx, cut := context.WithCancel(t.Context())
	var b *Broker
	var bd *Binding
	b, bd = withIssuer(t, Options{}, keyed{counting(n, time.Hour, time.Now), func() {
		cut()
		b.Drop(func(Key) bool { return true })
	}})
	if _, err := b.Credential(ctx, bd, alice()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n.Load() != 0 || len(b.flights) != 0 || b.cache.good.Len() != 0 {
		t.Errorf("%d requests, %d on their way", n.Load(), len(b.flights))
	}
}

func TestForget(t *testing.T) {
	clk, n := newClock(), new(atomic.Int64)
	b, bd := withIssuer(t, Options{Now: clk.now}, counting(n, time.Hour, clk.now))
	bob := alice()
	bob.Subject = "user:bob"
	mustGet(t, b, bd, bob)
	first := mustGet(t, b, bd, alice())
	old := mustGet(t, b, bd, alice())
	if !b.Forget(old) {
		t.Error("a cached credential is not forgotten")
	}
	if b.Forget(first) {
		t.Error("asking again is said to help whoever was just given a fresh one")
	}
	next := mustGet(t, b, bd, alice())
	if next.value.Equal(old.value) {
		t.Error("the forgotten one came back")
	}
	if !b.Forget(old) {
		t.Error("who held the old one is not told that there may be another")
	}
	if !mustGet(t, b, bd, alice()).Ref().Cached || !mustGet(t, b, bd, bob).Ref().Cached {
		t.Error("too much was forgotten")
	}
	if b.Forget(nil) || b.Forget(fresh("v", time.Time{})) {
		t.Error("what was never cached was forgotten")
	}
}

// An upstream that refuses everybody costs the issuer one request in refusedPause, not one for each call.
func TestForgetIsBounded(t *testing.T) {
	clk, n := newClock(), new(atomic.Int64)
	b, bd := withIssuer(t, Options{Now: clk.now}, counting(n, time.Hour, clk.now))
	refuse := func() {
		for range 10 {
			if b.Forget(mustGet(t, b, bd, alice())) {
				mustGet(t, b, bd, alice())
			}
		}
	}
	if refuse(); n.Load() != 2 {
		t.Errorf("%d requests for ten refusals", n.Load())
	}
	clk.advance(refusedPause)
	if refuse(); n.Load() != 3 {
		t.Errorf("%d requests after the pause", n.Load())
	}
}

// A call may hold a credential while a revocation drops it, and put it on its request afterwards.
func TestDroppedIsNotSent(t *testing.T) {
	b, bd := withIssuer(t, Options{}, counting(new(atomic.Int64), time.Hour, time.Now))
	fresh := mustGet(t, b, bd, alice())
	held := mustGet(t, b, bd, alice())
	b.Drop(func(Key) bool { return true })
	for name, c := range map[string]*Credential{"from the cache": held, "from the issuer": fresh} {
		out := &http.Request{Header: http.Header{}}
		_, err := c.Apply(out, nil)
		wantReason(t, err, Cancelled)
		if len(out.Header) > 0 {
			t.Errorf("%s: sent all the same", name)
		}
	}
	if b.Forget(held) {
		t.Error("a dropped credential is to be asked for again")
	}
}

// A body that had to be held may take longer than the credential lives.
func TestExpiredIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fresh("v", time.Now().Add(time.Minute))
		time.Sleep(time.Minute)
		_, err := c.Apply(&http.Request{}, nil)
		wantReason(t, err, Expired)
	})
}

// Callers that come and go leave requests behind; their number is bounded.
func TestFlightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bd := withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, _ Subject) (*Credential, error) {
			<-ctx.Done()
			return nil, newError("orders", Timeout)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range maxFlights {
			s := alice()
			s.TokenID = string(rune('A' + i))
			wg.Go(func() { _, _ = b.Credential(ctx, bd, s) })
		}
		synctest.Wait()
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, Overloaded)
		wg.Wait()
		b.Drop(func(Key) bool { return true })
	})
}

func TestPanicOfAnIssuer(t *testing.T) {
	b, bd := withIssuer(t, Options{}, funcIssuer(func(context.Context, Subject) (*Credential, error) {
		panic("with " + subjectSecret)
	}))
	_, err := b.Credential(t.Context(), bd, alice())
	noLeak(t, wantReason(t, err, Internal), subjectSecret)
	for _, is := range []funcIssuer{
		func(context.Context, Subject) (*Credential, error) { return nil, nil },
		func(context.Context, Subject) (*Credential, error) { return nil, errors.New(subjectSecret) },
	} {
		b, bd := withIssuer(t, Options{}, is)
		_, err := b.Credential(t.Context(), bd, alice())
		noLeak(t, wantReason(t, err, Internal), subjectSecret)
	}
}

// A call that was cut gets nothing, not even what is at hand.
func TestEndedCallerGetsNothing(t *testing.T) {
	n := new(atomic.Int64)
	b, bd := withIssuer(t, Options{}, counting(n, time.Hour, time.Now))
	mustGet(t, b, bd, alice())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	bob := alice()
	bob.Subject = "user:bob"
	for _, s := range []Subject{alice(), bob} {
		if c, err := b.Credential(ctx, bd, s); c != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", c, err)
		}
	}
	if n.Load() != 1 {
		t.Errorf("%d requests", n.Load())
	}
}

// A caller that looked just before a flight landed, and asks just after, takes what it brought.
func TestFlightLandedMeanwhile(t *testing.T) {
	n := new(atomic.Int64)
	b, bd := withIssuer(t, Options{}, counting(n, time.Hour, time.Now))
	s := alice()
	mustGet(t, b, bd, s)
	key, err := b.key(b.bound[bd], &s)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.fetch(t.Context(), b.bound[bd], key, s); err != nil || !c.Ref().Cached || n.Load() != 1 {
		t.Errorf("got %v, %v after %d requests", c, err, n.Load())
	}
}

// A request that outlives its caller must not read what the caller may then change.
func TestFlightKeepsItsScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		b, bd := withIssuer(t, Options{}, funcIssuer(func(_ context.Context, s Subject) (*Credential, error) {
			time.Sleep(time.Second)
			got = s.RequiredScopes[0]
			return fresh("v", time.Now().Add(time.Hour)), nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		s := alice()
		_, _ = b.Credential(ctx, bd, s)
		s.RequiredScopes[0] = "admin:all"
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got != "orders:read" {
			t.Errorf("asked for %q", got)
		}
	})
}
