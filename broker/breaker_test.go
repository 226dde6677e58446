package broker

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// faulty is a token endpoint that answers by what mode holds.
func faulty(t *testing.T, mode *atomic.Pointer[string]) *tokenServer {
	return newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch m := *mode.Load(); m {
		case "good":
			writeGood(w)
		case "503":
			w.WriteHeader(503)
		case "429":
			w.Header().Set("Retry-After", "25")
			w.WriteHeader(429)
		default:
			write(w, 400, `{"error":"`+m+`"}`)
		}
	})
}

func TestWhatTheBreakerCounts(t *testing.T) {
	for mode, opens := range map[string]bool{
		"503": true, "429": true, "invalid_client": true,
		"invalid_grant": false, "invalid_request": false, "invalid_scope": false, "invalid_target": false, "unauthorized_client": false, "odd": false,
	} {
		t.Run(mode, func(t *testing.T) {
			clk, m := newClock(), new(atomic.Pointer[string])
			m.Store(&mode)
			s := faulty(t, m)
			b, bd := mustNew(t, exchangeBinding(s.URL), Options{Now: clk.now})
			ask := func(tenant string, i int) error {
				sub := alice()
				sub.Tenant, sub.TokenID = tenant, fmt.Sprint(i)
				_, err := b.Credential(t.Context(), bd, sub)
				return err
			}
			for i := range 10 {
				if err := ask(fmt.Sprint("tenant-", i%2), i); err == nil {
					t.Fatal("no error")
				}
			}
			sent := len(s.seen())
			good := "good"
			m.Store(&good)
			err := ask("another", 100)
			if !opens {
				if err != nil || b.Breakers()["orders"] != Closed {
					t.Errorf("refusals of tokens cut off another tenant: %v", err)
				}
				return
			}
			e := wantReason(t, err, BreakerOpen)
			if sent > breakAfter+1 || len(s.seen()) != sent {
				t.Errorf("%d requests, then %d", sent, len(s.seen()))
			}
			want := breakFor
			if mode == "429" {
				want = 25 * time.Second
			}
			if e.RetryAfter != want || b.Breakers()["orders"] != Open {
				t.Errorf("to be tried again after %v, want %v; state %v", e.RetryAfter, want, b.Breakers())
			}
			clk.advance(want)
			if err := ask("another", 101); err != nil {
				t.Errorf("the probe: %v", err)
			}
			if b.Breakers()["orders"] != Closed {
				t.Error("still open")
			}
		})
	}
}

func TestOneTenantOpensItForItselfOnly(t *testing.T) {
	now := time.Now()
	var b breaker
	for range breakAfter + 2 {
		b.failed("a", 0, now)
	}
	if b.admit("a", now) || !b.admit("b", now) || b.state() != OpenToOne {
		t.Error("the wrong tenant is kept away")
	}
	b.failed("b", 0, now) // so it is the endpoint
	if b.admit("a", now) || b.admit("b", now) || b.admit("c", now) || b.state() != Open {
		t.Error("not open to all")
	}
	b.answered()
	if !b.admit("a", now) || b.state() != Closed {
		t.Error("not closed")
	}
}

// The pauses that a tenant has brought upon itself, ever longer, are not put upon others for one failure of theirs.
func TestThePausesOfOneAreNotTheOthers(t *testing.T) {
	now := time.Now()
	var b breaker
	for range breakAfter {
		b.failed("a", 0, now)
	}
	for range 5 {
		now = now.Add(b.pause("a", now))
		if !b.admit("a", now) {
			t.Fatal("no probe")
		}
		b.failed("a", 0, now)
	}
	if got := b.pause("a", now); got != maxBreak {
		t.Errorf("the one is kept away for %v", got)
	}
	if b.failed("b", 0, now); b.pause("b", now) != breakFor || b.pause("c", now) != breakFor {
		t.Errorf("others are kept away for %v", b.pause("c", now))
	}
}

func TestProbe(t *testing.T) {
	now := time.Now()
	var b breaker
	for i := range breakAfter {
		if !b.admit("a", now) {
			t.Fatalf("open after %d", i)
		}
		b.failed(fmt.Sprint(i%2), 0, now)
	}
	period := breakFor
	for range 6 {
		if b.admit("a", now) || b.admit("a", now.Add(period-1)) {
			t.Errorf("closed before %v", period)
		}
		now = now.Add(period)
		if !b.admit("a", now) || b.admit("b", now) {
			t.Error("not exactly one probe")
		}
		if b.learnedNothing(); !b.admit("b", now) {
			t.Error("a probe that was called off keeps the next away")
		}
		b.failed("b", 0, now)
		period = min(2*period, maxBreak)
	}
	now = now.Add(period)
	b.admit("a", now)
	if b.admit("a", now.Add(probeFor-1)) || !b.admit("a", now.Add(probeFor)) {
		t.Error("a probe that is never heard of again is waited for otherwise than probeFor")
	}
}

// What was sent before it opened comes back late, and says nothing new.
func TestStragglersDoNotProlong(t *testing.T) {
	now := time.Now()
	var b breaker
	for i := range 16 {
		b.failed(fmt.Sprint(i), 0, now)
	}
	if d := b.pause("a", now); d != breakFor {
		t.Errorf("open for %v", d)
	}
}

// The breaker refuses at once also while every place is taken by requests that hang.
func TestOpenDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep := &endpoint{share: newShare(1, 8), now: time.Now}
		if r := ep.acquire(forTenant(t.Context(), "a")); r != "" {
			t.Fatal(r)
		}
		for i := range breakAfter {
			ep.breaker.failed(fmt.Sprint(i), 0, time.Now())
		}
		begin := time.Now()
		if r := ep.acquire(forTenant(t.Context(), "b")); r != BreakerOpen || time.Since(begin) > 0 {
			t.Errorf("%q after %v", r, time.Since(begin))
		}
		ep.release(forTenant(t.Context(), "a"))
		if ep.share.free != 1 {
			t.Error("a place is lost")
		}
	})
}
