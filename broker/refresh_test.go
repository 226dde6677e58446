package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// refreshing is a broker in a bubble whose issuer takes a second, and fails as long as told to.
func refreshing(t *testing.T, n *atomic.Int64, fail *atomic.Bool) (*Broker, *Binding) {
	return withIssuer(t, Options{}, funcIssuer(func(ctx context.Context, _ Subject) (*Credential, error) {
		i := n.Add(1)
		select {
		case <-ctx.Done():
			return nil, newError("orders", Cancelled)
		case <-time.After(time.Second):
		}
		if fail.Load() {
			return nil, newError("orders", InvalidGrant)
		}
		return fresh(fmt.Sprint("token-", i), time.Now().Add(10*time.Minute)), nil
	}))
}

func longLived() Subject {
	s := alice()
	s.Expiry = time.Now().Add(24 * time.Hour)
	return s
}

func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, fail := new(atomic.Int64), new(atomic.Bool)
		b, bd := refreshing(t, n, fail)
		s := longLived()
		value := func() string { return mustGet(t, b, bd, s).value.Reveal() }
		mustGet(t, b, bd, s)
		life := 10*time.Minute - 30*time.Second
		time.Sleep(life * 7 / 10)
		if value() != "token-1" || n.Load() != 1 {
			t.Error("asked for anew too soon")
		}
		time.Sleep(life * 19 / 100)
		for range 100 { // the old one serves meanwhile, and one request is made for all
			if begin := time.Now(); value() != "token-1" || time.Since(begin) > 0 {
				t.Fatal("a call waits for the refresh")
			}
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if value() != "token-2" || n.Load() != 2 {
			t.Errorf("not refreshed: %s, %d requests", value(), n.Load())
		}
	})
}

func TestUnusedIsNotRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(atomic.Int64)
		b, bd := refreshing(t, n, new(atomic.Bool))
		mustGet(t, b, bd, longLived())
		time.Sleep(time.Hour)
		if n.Load() != 1 {
			t.Errorf("%d requests for a credential that nobody used", n.Load())
		}
	})
}

// Where the caller's own token sets the end, asking again would bring nothing.
func TestNoRefreshTowardsTheSameEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(atomic.Int64)
		b, bd := refreshing(t, n, new(atomic.Bool))
		s := alice()
		s.Expiry = time.Now().Add(5 * time.Minute)
		mustGet(t, b, bd, s)
		time.Sleep(5*time.Minute - 35*time.Second)
		if c := mustGet(t, b, bd, s); !c.Ref().Cached || n.Load() != 1 {
			t.Errorf("%d requests", n.Load())
		}
	})
}

func TestFailingRefreshTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, fail := new(atomic.Int64), new(atomic.Bool)
		b, bd := refreshing(t, n, fail)
		s := longLived()
		begin := time.Now()
		mustGet(t, b, bd, s)
		fail.Store(true)
		end := 10*time.Minute + time.Second - 30*time.Second - time.Millisecond
		time.Sleep(time.Until(begin.Add(9 * time.Minute)))
		for time.Since(begin) < end {
			if c := mustGet(t, b, bd, s); c.value.Reveal() != "token-1" {
				t.Fatal("another one")
			}
			time.Sleep(time.Second)
		}
		if n.Load() < 3 || n.Load() > 5 {
			t.Errorf("%d requests in half a minute of failing", n.Load())
		}
		time.Sleep(time.Until(begin.Add(10*time.Minute + time.Second)))
		_, err := b.Credential(t.Context(), bd, s)
		wantReason(t, err, InvalidGrant) // and never the one that is over
	})
}

func TestKilledIsNotRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(atomic.Int64)
		b, bd := refreshing(t, n, new(atomic.Bool))
		s := longLived()
		mustGet(t, b, bd, s)
		time.Sleep(9 * time.Minute)
		mustGet(t, b, bd, s)
		synctest.Wait() // the refresh is on its way
		b.Drop(func(Key) bool { return true })
		time.Sleep(2 * time.Second)
		if n.Load() != 2 || b.cache.good.Len() != 0 {
			t.Errorf("%d requests, %d stored", n.Load(), b.cache.good.Len())
		}
	})
}

func TestRefreshesAreSpread(t *testing.T) {
	start := time.Now()
	until := start.Add(1000 * time.Second)
	lowest, highest := time.Hour, time.Duration(0)
	for range 1000 {
		d := time.Unix(0, refreshAt(start, until)).Sub(start)
		lowest, highest = min(lowest, d), max(highest, d)
	}
	if lowest < 720*time.Second || highest > 880*time.Second || highest-lowest < 100*time.Second {
		t.Errorf("from %v to %v", lowest, highest)
	}
}

// An actor token that ends first ends the delegation.
func TestActorsEndCounts(t *testing.T) {
	exp := time.Now().Add(5 * time.Minute).Truncate(time.Second)
	s := newTokenServer(t, nil)
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.Impersonate = false
	bd.TokenExchange.ActorTokenFile = writeFile(t, fakeJWT(fmt.Sprintf(`{"sub":"w","exp":%d}`, exp.Unix())))
	clk := newClock()
	b, found := mustNew(t, bd, Options{Now: clk.now})
	sub := alice()
	mustGet(t, b, found, sub)
	clk.advance(4 * time.Minute)
	if !mustGet(t, b, found, sub).Ref().Cached {
		t.Error("not cached")
	}
	clk.advance(time.Until(exp) - 4*time.Minute - 20*time.Second)
	if mustGet(t, b, found, sub).Ref().Cached {
		t.Error("the delegation outlives its actor")
	}
}

func TestRefreshAndReadersRace(t *testing.T) {
	clk, n := newClock(), new(atomic.Int64)
	b, bd := withIssuer(t, Options{Now: clk.now}, counting(n, 10*time.Minute, clk.now))
	s := alice()
	s.Expiry = clk.now().Add(24 * time.Hour)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if c, err := b.Credential(t.Context(), bd, s); err != nil || c.value.IsZero() {
					t.Error(err)
				}
				clk.advance(10 * time.Second)
			}
		})
	}
	wg.Wait()
	if n.Load() > 8 {
		t.Errorf("%d requests in 33 minutes of tokens that live ten", n.Load())
	}
}
