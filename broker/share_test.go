package broker

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/redact"
)

func TestShareLeavesRoomForOthers(t *testing.T) {
	for n := 1; n < maxInFlight; n++ { // tenants whose requests hang
		s := newShare(maxInFlight, 0)
		for i := range n {
			for s.take(t.Context(), fmt.Sprint(i)) == "" {
			}
		}
		if n <= 4 && s.take(t.Context(), "next") != "" {
			t.Errorf("%d tenants keep the next one out", n)
		}
	}
	if s := newShare(maxInFlight, 0); true {
		for range maxInFlight / 2 {
			if r := s.take(t.Context(), "a"); r != "" {
				t.Fatal(r)
			}
		}
		if s.take(t.Context(), "a") == "" {
			t.Error("one tenant has more than half")
		}
		s.give("a")
		if r := s.take(t.Context(), "a"); r != "" {
			t.Errorf("a place that was given back: %s", r)
		}
	}
}

func TestShareQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(2, 3)
		if s.take(t.Context(), "a") != "" || s.take(t.Context(), "b") != "" {
			t.Fatal("no place")
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		wait := func(tenant string) {
			wg.Go(func() {
				if r := s.take(t.Context(), tenant); r != "" {
					t.Errorf("%s: %s", tenant, r)
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
			})
			synctest.Wait()
		}
		wait("a")
		wait("c")
		for range 2 { // of three places to wait tenant a may have half, and whoever else the last
			if r := s.take(t.Context(), "a"); r != Overloaded {
				t.Errorf("a waits once more: %q", r)
			}
		}
		leaving, cancel := context.WithCancel(t.Context())
		gone := make(chan Reason)
		go func() { gone <- s.take(leaving, "d") }()
		synctest.Wait()
		cancel()
		if r := <-gone; r != Cancelled {
			t.Errorf("who left got %q", r)
		}
		s.give("b") // a holds one of two and waits first; the place is c's
		synctest.Wait()
		if fmt.Sprint(order) != "[c]" {
			t.Errorf("order %v", order)
		}
		s.give("a")
		wg.Wait()
		s.give("a")
		s.give("c")
		if s.free != 2 || s.room != 3 || len(s.queue)+len(s.holds)+len(s.waits) != 0 {
			t.Errorf("left over: %+v", s)
		}
	})
}

// Both tenants use one endpoint, which never answers one of them.
func TestHungTenantSlowsNoOther(t *testing.T) {
	s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.PostFormValue("subject_token") == "hung" {
			<-r.Context().Done()
			return
		}
		writeGood(w)
	})
	bd := exchangeBinding(s.URL)
	b, found := mustNew(t, bd, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer b.Drop(func(Key) bool { return true })
	defer cancel()
	for i := range 200 {
		sub := alice()
		sub.Tenant, sub.TokenID, sub.Token = "hung", fmt.Sprint(i), redact.New("hung")
		wg.Go(func() { _, _ = b.Credential(ctx, found, sub) })
	}
	eventually(t, func() bool { return len(s.seen()) >= maxInFlight/2 })
	for i := range 20 {
		sub := alice()
		sub.TokenID = fmt.Sprint(i)
		short, done := context.WithTimeout(t.Context(), 5*time.Second) // of the ten that a hung one takes
		if _, err := b.Credential(short, found, sub); err != nil {
			t.Fatalf("the other tenant's call %d: %v", i, err)
		}
		done()
	}
}
