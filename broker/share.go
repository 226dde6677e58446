package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// share hands out a bounded number of places at one endpoint, and of places to wait for one. A tenant gets one more as long as it has
// fewer than are free, so that one whose requests hang leaves half to the others, two leave a third, and so on.
type share struct {
	mu    sync.Mutex
	free  int // places
	room  int // places to wait
	holds map[string]int
	waits map[string]int
	queue []*waiter // the longest waiting first
}

type waiter struct {
	tenant string
	ready  chan struct{} // closed when it has its place
}

func newShare(places, waiting int) *share {
	return &share{free: places, room: waiting, holds: make(map[string]int), waits: make(map[string]int)}
}

// take waits for a place, and returns why there is none when too many wait or ctx ended first.
func (s *share) take(ctx context.Context, tenant string) Reason {
	s.mu.Lock()
	if s.grant(tenant) {
		s.mu.Unlock()
		return ""
	}
	if s.waits[tenant] >= s.room {
		s.mu.Unlock()
		return Overloaded
	}
	w := &waiter{tenant, make(chan struct{})}
	s.room--
	s.waits[tenant]++
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	select {
	case <-w.ready:
		return ""
	case <-ctx.Done():
	}
	s.mu.Lock()
	if i := slices.Index(s.queue, w); i >= 0 {
		s.dequeue(i)
		s.mu.Unlock()
	} else { // it came at the same moment
		s.mu.Unlock()
		s.give(tenant)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Cancelled
	}
	return Overloaded
}

// give returns a place, and passes on what is free to the first in the queue who may have it.
func (s *share) give(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	less(s.holds, tenant)
	for i := 0; i < len(s.queue) && s.free > 0; {
		if w := s.queue[i]; s.grant(w.tenant) {
			s.dequeue(i)
			close(w.ready)
		} else {
			i++
		}
	}
}

func (s *share) grant(tenant string) bool {
	if s.holds[tenant] >= s.free {
		return false
	}
	s.free--
	s.holds[tenant]++
	return true
}

func (s *share) dequeue(i int) {
	less(s.waits, s.queue[i].tenant)
	s.room++
	s.queue = slices.Delete(s.queue, i, i+1)
}

// less keeps no tenant in memory who has nothing.
func less(m map[string]int, tenant string) {
	if m[tenant]--; m[tenant] <= 0 {
		delete(m, tenant)
	}
}

type tenantKey struct{}

// forTenant says for whom an endpoint is asked; without it all share the part of one.
func forTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}
