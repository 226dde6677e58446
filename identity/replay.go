package identity

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

// ReplayMode says how often a token may be used again. The zero value is ReplayOff.
type ReplayMode string

// How often tokens of an issuer may be used.
const (
	ReplayOff  ReplayMode = ""     // as often as it is good
	ReplayOnce ReplayMode = "once" // for one call
	ReplayBind ReplayMode = "bind" // by the first workload that used it
)

// ErrReplayFull says that no further token of the tenant can be remembered, so that it cannot be told whether one was used before.
var ErrReplayFull = errors.New("too many live tokens to remember another")

// maxReplays is how many live tokens are remembered; at about 200 bytes each.
const maxReplays = 1 << 17

// Replays remembers who used which token, for issuers that limit it. An entry lives as long as its token: none is ever given up for
// another, since whoever can have tokens minted could else flush it. A tenant of an issuer may have no more entries than are free, so that
// none fills it for the others: alone, a tenant has half. It is for one process. The zero value is ready for use, and safe for
// concurrent use.
type Replays struct {
	mu   sync.Mutex
	uses map[[sha256.Size]byte]*use
	held map[[sha256.Size]byte]int // entries by tenant
	ends useHeap
	now  func() time.Time // nil: time.Now
	max  int              // 0: maxReplays
}

// Limited reports whether the issuer limits how often the caller's token may be used.
func (c *Caller) Limited() bool { return c.replay != ReplayOff }

// use is the first use of a token.
type use struct {
	token, holder, tenant [sha256.Size]byte
	end                   time.Time // when the token is no longer accepted
}

// Use takes a token for its user: the call where it may be used once, the workload where it is bound. It is known by issuer and TokenID.
// The same user may come again. Errors: *InvalidError "replayed" for another user, ErrReplayFull.
func (r *Replays) Use(c *Caller, call, workload string) error {
	holder := call
	switch c.replay {
	case ReplayOff:
		return nil
	case ReplayBind:
		holder = workload
	}
	if c.TokenID == "" || holder == "" { // nobody cannot be told from nobody else
		return invalid("replayed")
	}
	token, by := digestOf(c.Issuer, c.TokenID), digestOf(string(c.replay), holder)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.forget()
	if u := r.uses[token]; u != nil {
		if u.holder != by {
			return invalid("replayed")
		}
		if c.end.After(u.end) { // another token with the same id
			u.end = c.end
			heap.Init(&r.ends)
		}
		return nil
	}
	if !c.end.After(now) { // it ended while it was judged, and an entry for it would be gone at once
		return invalid("expired")
	}
	tenant := digestOf(c.Issuer, c.Tenant)
	if r.held[tenant] >= cmp.Or(r.max, maxReplays)-len(r.uses) {
		return ErrReplayFull
	}
	if r.uses == nil {
		r.uses, r.held = map[[sha256.Size]byte]*use{}, map[[sha256.Size]byte]int{}
	}
	u := &use{token: token, holder: by, tenant: tenant, end: c.end}
	r.uses[token] = u
	r.held[tenant]++
	heap.Push(&r.ends, u)
	return nil
}

// forget drops what has ended and returns the time. Callers hold mu.
func (r *Replays) forget() time.Time {
	now := time.Now()
	if r.now != nil {
		now = r.now()
	}
	for len(r.ends) > 0 && !r.ends[0].end.After(now) {
		u := heap.Pop(&r.ends).(*use)
		delete(r.uses, u.token)
		if r.held[u.tenant]--; r.held[u.tenant] == 0 {
			delete(r.held, u.tenant)
		}
	}
	return now
}

// digestOf tells ("a", "bc") from ("ab", "c").
func digestOf(a, b string) [sha256.Size]byte {
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 512), uint32(len(a)))
	return sha256.Sum256(append(append(buf, a...), b...))
}

// useHeap is a container/heap of uses, the first to end on top.
type useHeap []*use

func (h useHeap) Len() int           { return len(h) }
func (h useHeap) Less(i, j int) bool { return h[i].end.Before(h[j].end) }
func (h useHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push appends a *use.
func (h *useHeap) Push(x any) { *h = append(*h, x.(*use)) }

// Pop removes the last one.
func (h *useHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
