package egress

import (
	"context"
	"net"
	"net/netip"
	"time"
)

const (
	attemptDelay = 250 * time.Millisecond // RFC 8305 section 5, recommended
	maxAttempts  = 8                      // an answer of hundreds of addresses must not become a port scan
)

// connectFunc connects to one peer.
type connectFunc func(context.Context, netip.AddrPort) (*net.TCPConn, error)

// attemptOrder returns the peers to try: families take turns, the first one's family first (RFC 8305 section 4), no
// peer twice, maxAttempts at most.
func attemptOrder(peers []netip.AddrPort) []netip.AddrPort {
	if len(peers) < 2 {
		return peers
	}
	first, second := splitFamilies(peers)
	order := make([]netip.AddrPort, 0, len(first)+len(second))
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			order = append(order, first[i])
		}
		if i < len(second) {
			order = append(order, second[i])
		}
	}
	return order[:min(len(order), maxAttempts)]
}

// splitFamilies returns the distinct peers of the first one's family and those of the other, maxAttempts of each at most.
func splitFamilies(peers []netip.AddrPort) (first, second []netip.AddrPort) {
	seen := make(map[netip.AddrPort]bool, 2*maxAttempts)
	for _, p := range peers {
		list := &first
		if p.Addr().Is4() != peers[0].Addr().Is4() {
			list = &second
		}
		if !seen[p] && len(*list) < maxAttempts {
			seen[p] = true
			*list = append(*list, p)
		}
	}
	return first, second
}

// race connects to the peers in order, each attemptDelay after the one before or as soon as that one has failed, and
// returns the first connection (RFC 8305 section 5). All others are closed and all goroutines ended when it returns.
// The error is that of the first attempt to fail.
func race(ctx context.Context, peers []netip.AddrPort, connect connectFunc) (*net.TCPConn, error) {
	switch len(peers) {
	case 0:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.AddrError{Err: "the answer has no address"}}
	case 1:
		return connect(ctx, peers[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	r := runners{connect: connect, finished: make(chan attempt)}
	defer r.drain()
	defer cancel() // before drain, which waits for the losers

	next := time.NewTimer(0)
	defer next.Stop()
	var firstErr error
	for len(peers) > 0 || r.running > 0 {
		select {
		case <-next.C:
			if len(peers) > 0 {
				r.start(ctx, peers[0])
				peers = peers[1:]
				next.Reset(attemptDelay)
			}
		case a := <-r.finished:
			r.running--
			if a.err == nil {
				return a.conn, nil
			}
			if firstErr == nil {
				firstErr = a.err
			}
			if ctx.Err() != nil {
				return nil, firstErr
			}
			next.Reset(0)
		}
	}
	return nil, firstErr
}

// runners are the attempts of one race.
type runners struct {
	connect  connectFunc
	finished chan attempt
	running  int
}

type attempt struct {
	conn *net.TCPConn
	err  error
}

func (r *runners) start(ctx context.Context, peer netip.AddrPort) {
	r.running++
	go func() {
		conn, err := r.connect(ctx, peer)
		r.finished <- attempt{conn, err}
	}()
}

// drain waits for the attempts that are still running, whose context is cancelled, and closes what they connected.
func (r *runners) drain() {
	for ; r.running > 0; r.running-- {
		if a := <-r.finished; a.err == nil {
			_ = a.conn.Close() // a loser: nothing was written to it
		}
	}
}
