package killswitch

import (
	"context"
	"sync"
	"sync/atomic"
)

// shards spreads the running calls so that calls that begin and end seldom wait for each other.
const shards = 16

// registry holds the running calls.
type registry struct {
	next  atomic.Uint32
	shard [shards]shard
}

// shard is a ring of calls around root.
type shard struct {
	mu   sync.Mutex
	root call
	_    [64]byte // keeps two shards' locks off one cache line
}

// call is one running call, a member of its shard's ring while it runs.
type call struct {
	scope      Scope
	cancel     context.CancelCauseFunc
	shard      *shard
	prev, next *call
	cut        bool // guarded by shard.mu
}

func (g *registry) add(c *call) {
	s := &g.shard[g.next.Add(1)%shards]
	c.shard = s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root.next == nil {
		s.root.next, s.root.prev = &s.root, &s.root
	}
	c.prev, c.next = s.root.prev, &s.root
	c.prev.next, s.root.prev = c, c
}

// end removes the call, once, and releases its context.
func (g *registry) end(c *call, cause error) {
	c.shard.mu.Lock()
	if c.next != nil {
		c.prev.next, c.next.prev = c.next, c.prev
		c.prev, c.next = nil, nil
	}
	c.shard.mu.Unlock()
	c.cancel(cause)
}

// cancel ends the context of every call for which covering returns a revocation, and returns how many that count it ended. The calls
// stay registered until their owners end them, and one that was ended is not counted again. Contexts are cancelled without
// a lock held, since that may run the owner's callbacks.
func (g *registry) cancel(covering func(*Scope) *Revocation) int {
	ended := 0
	for i := range g.shard {
		s := &g.shard[i]
		var hit []*call
		var by []*Revocation
		s.mu.Lock()
		for c := s.root.next; c != nil && c != &s.root; c = c.next {
			if c.cut {
				continue
			}
			if r := covering(&c.scope); r != nil {
				c.cut = true
				hit, by = append(hit, c), append(by, r)
				if c.scope.counts() {
					ended++
				}
			}
		}
		s.mu.Unlock()
		for j, c := range hit {
			c.cancel(&Tripped{*by[j]})
		}
	}
	return ended
}

// each calls f with the scope of every running call that counts and was not cut, with a lock held: f must be quick.
func (g *registry) each(f func(*Scope)) {
	for i := range g.shard {
		s := &g.shard[i]
		s.mu.Lock()
		for c := s.root.next; c != nil && c != &s.root; c = c.next {
			if !c.cut && c.scope.counts() {
				f(&c.scope)
			}
		}
		s.mu.Unlock()
	}
}

func (g *registry) count() int {
	n := 0
	for i := range g.shard {
		s := &g.shard[i]
		s.mu.Lock()
		for c := s.root.next; c != nil && c != &s.root; c = c.next {
			if c.scope.counts() {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}
