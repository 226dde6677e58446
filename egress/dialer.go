package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Attempts counts what one dial did. Safe for concurrent use, but for what it is told before the first dial.
type Attempts struct {
	Resolved, Dialed, Refused atomic.Int32 // addresses found, connections begun, addresses judged unfit

	ID, Traceparent string // of the call that dials, for an egress gateway's record; either may be empty
}

// Dialer connects to names for tools. Resolver and Addresses must be set: without a resolver no name is found, and
// without addresses no special-purpose address is reachable. Timeout covers the whole dial, look-up included; zero or
// less leaves it to the context.
type Dialer struct {
	Addresses *Addresses
	Resolver  *net.Resolver
	Timeout   time.Duration
}

// Dial resolves host (once) and connects to the first address that answers, judging each where the socket connects. A
// denied address is never contacted; if any address of the answer is denied, the dial as a whole is denied.
// host is canonical. at may be nil. Errors: *AddressError; *net.DNSError; *net.OpError. The latter two name resolvers and
// addresses, and are not for the tool.
func (d *Dialer) Dial(ctx context.Context, tool, host string, port uint16, at *Attempts) (*net.TCPConn, error) {
	if at == nil {
		at = new(Attempts)
	}
	ctx, cancel := d.bound(ctx, host)
	defer cancel()
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	at.Resolved.Add(int32(len(found)))
	peers, err := d.judgeAll(tool, found, port, at)
	if err != nil {
		return nil, err
	}
	conn, err := race(ctx, attemptOrder(peers), connector(d.judgeFor(tool), at))
	if denied, ok := errors.AsType[*AddressError](err); ok {
		return nil, denied
	}
	return conn, err
}

// bound returns a context that ends with the dial's time. An address is not looked up and is connected to once: its socket can
// keep the time, which spares a timer and what hangs on it.
func (d *Dialer) bound(ctx context.Context, host string) (context.Context, context.CancelFunc) {
	switch {
	case d.Timeout <= 0:
		return ctx, func() {}
	case isAddress(host) && ctx.Done() != nil: // a socket asks only contexts that can end for their deadline
		return socketTimed{ctx, time.Now().Add(d.Timeout)}, func() {}
	default:
		return context.WithTimeout(ctx, d.Timeout)
	}
}

// judgeAll returns the peers of an answer, or the first denial. One bad address spoils the answer: a name that mixes
// public and private addresses is an attack or a mistake, and the private one must not serve as a fallback.
func (d *Dialer) judgeAll(tool string, found []netip.Addr, port uint16, at *Attempts) ([]netip.AddrPort, error) {
	var denied error
	peers := make([]netip.AddrPort, 0, len(found))
	for _, addr := range found {
		peer := netip.AddrPortFrom(addr.Unmap(), port)
		if err := d.Addresses.Judge(tool, peer); err != nil {
			at.Refused.Add(1)
			if denied == nil {
				denied = err
			}
		}
		peers = append(peers, peer)
	}
	if denied != nil {
		return nil, denied
	}
	return peers, nil
}

// judgeFor returns the judge of one tool's peers.
func (d *Dialer) judgeFor(tool string) func(netip.AddrPort) error {
	return func(peer netip.AddrPort) error { return d.Addresses.Judge(tool, peer) }
}
