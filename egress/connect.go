package egress

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// connector returns the function that connects to one peer. The judge sits in the hook between socket and connect, so
// that nothing reaches an address which it did not see.
func connector(judge func(netip.AddrPort) error, at *Attempts) connectFunc {
	nd := net.Dialer{
		ControlContext: func(_ context.Context, _, address string, c syscall.RawConn) error {
			peer, _ := netip.ParseAddrPort(address) // what does not parse is the zero address, which every judge denies
			if err := judge(peer); err != nil {
				at.Refused.Add(1)
				return err
			}
			at.Dialed.Add(1)
			return sharePort(c)
		},
	}
	return func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) { return dialTCP(ctx, &nd, peer) }
}

// socketTimed is a context whose deadline is kept by the socket that is connected under it, and by nothing else.
type socketTimed struct {
	context.Context
	at time.Time
}

// Deadline returns the sooner of its own deadline and its parent's.
func (c socketTimed) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}
