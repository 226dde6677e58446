package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

// Fence finds out whether the rules of netinit are in force, from within: only NET_ADMIN may read them, which a running sidecar
// has not. It connects, over each family, to a port of its own in two ways. The rules refuse a connection to the loopback
// address, since the sidecar may not begin any there, and turn one to an address of the documentation's ranges around, so that
// it arrives at that port. A table that is gone, empty or dormant, or one that lacks the redirection, the fence or the rules of a family, does
// not do both. What a rule says of one tool it cannot see.
//
// All methods may be called on a nil Fence, which stands for none being expected.
type Fence struct {
	paths    []*probePath
	original func(*net.TCPConn) (netip.AddrPort, error)
	dial     func(ctx context.Context, address string) (net.Conn, error)
	log      *slog.Logger

	flight singleflight.Group
	state  atomic.Pointer[fenceState]
}

// fenceState is what a check found, and when.
type fenceState struct {
	err error
	at  time.Time
}

// probePath is the test of one family.
type probePath struct {
	name     string // of the family
	loopback netip.AddrPort
	probe    netip.AddrPort // what the rules redirect to loopback
	listener net.Listener

	mu      sync.Mutex
	nonce   [nonceSize]byte
	arrived chan struct{} // closed when a redirected connection brings the nonce; nil when none is awaited
}

const nonceSize = 16

// Timing of a check. One that finds the rules in force takes a millisecond or two.
const (
	fenceTimeout = 2 * time.Second
	fenceFresh   = 250 * time.Millisecond // what a check found holds for so long, so that nobody makes them run without end
)

// The reasons why the fence does not count as being in force.
var (
	ErrFenceUnchecked = errors.New("not checked yet")
	ErrFenceOpen      = errors.New("the rules of netinit are not there: a connection over loopback was not refused")
	ErrFenceSilent    = errors.New("the rules of netinit are not all there: connections are lost")
	ErrFenceTurn      = errors.New("the rules of netinit are not all there: nothing is redirected")
)

// FenceProbes are the addresses that connections of the sidecar's own are turned around at, of RFC 5737 and RFC 3849, with a port.
func FenceProbes(port uint16) []netip.AddrPort {
	return []netip.AddrPort{
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 254}), port),
		netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 14: 0xff, 15: 0xfe}), port),
	}
}

// OpenFence listens on a port of the loopback addresses. A system without IPv6 has one of them only.
func OpenFence(port uint16, log *slog.Logger) (*Fence, error) {
	f := &Fence{original: originalDestination, dial: dialPlain, log: log}
	f.state.Store(&fenceState{err: ErrFenceUnchecked})
	for _, p := range FenceProbes(port) {
		path := &probePath{name: "IPv4", loopback: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), probe: p}
		if p.Addr().Is6() {
			path.name, path.loopback = "IPv6", netip.AddrPortFrom(netip.IPv6Loopback(), port)
		}
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // of which netfilter does not tell what address was meant
		ln, err := lc.Listen(context.Background(), "tcp", path.loopback.String())
		switch {
		case err == nil:
		case p.Addr().Is6() && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)):
			continue
		default:
			f.Close()
			return nil, fmt.Errorf("the fence's probe port: %w", err)
		}
		path.listener = ln
		f.paths = append(f.paths, path)
	}
	for _, path := range f.paths {
		go f.accept(path)
	}
	return f, nil
}

func dialPlain(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	d.SetMultipathTCP(false)
	return d.DialContext(ctx, "tcp", address)
}

// Close ends the listening.
func (f *Fence) Close() {
	if f == nil {
		return
	}
	for _, p := range f.paths {
		_ = p.listener.Close()
	}
}

// Addresses are those that the fence listens on.
func (f *Fence) Addresses() []netip.AddrPort {
	if f == nil {
		return nil
	}
	var all []netip.AddrPort
	for _, p := range f.paths {
		all = append(all, p.loopback)
	}
	return all
}

// InForce is nil if the last check found the rules in force. Otherwise it says why not; before the first check it is
// ErrFenceUnchecked.
func (f *Fence) InForce() error {
	if f == nil {
		return nil
	}
	return f.state.Load().err
}

// Check tests the rules, for two seconds at most, and returns what InForce will return from then on. Checks that are asked for
// at once, or within a quarter of a second, are one.
func (f *Fence) Check(ctx context.Context) error {
	if f == nil {
		return nil
	}
	done := f.flight.DoChan("", func() (any, error) {
		if s := f.state.Load(); time.Since(s.at) < fenceFresh {
			return nil, s.err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fenceTimeout) // others wait for it as well
		defer cancel()
		err := f.test(ctx)
		f.note(f.state.Swap(&fenceState{err: err, at: time.Now()}).err, err)
		return nil, err
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note logs a change.
func (f *Fence) note(before, after error) {
	switch {
	case after == nil && before != nil:
		f.log.Info("the fence is in force")
	case after != nil && (before == nil || before.Error() != after.Error()):
		f.log.Error("the fence is not in force; calls are denied", "reason", after.Error())
	}
}

// test runs both tests of each family at once. A family without a route has nothing that could be redirected, or that could
// leave; one family at least must have been.
func (f *Fence) test(ctx context.Context) error {
	errs := make([]error, 2*len(f.paths))
	var turned atomic.Bool
	var all sync.WaitGroup
	for i, p := range f.paths {
		all.Go(func() { errs[2*i] = p.named(f.refused(ctx, p)) })
		all.Go(func() {
			routed, err := f.turned(ctx, p)
			errs[2*i+1] = p.named(err)
			if routed && err == nil {
				turned.Store(true)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if !turned.Load() {
		return ErrFenceTurn
	}
	return nil
}

func (p *probePath) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// refused tests that the sidecar cannot connect to where it is listening.
func (f *Fence) refused(ctx context.Context, p *probePath) error {
	conn, err := f.dial(ctx, p.loopback.String())
	switch {
	case err == nil:
		reset(conn)
		return ErrFenceOpen
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return ErrFenceSilent
}

// turned tests that a connection to the probe's address arrives here. Somebody who answers there is not believed: the nonce must
// have come in by our own listener. routed is false where the system knows no way to the address.
func (f *Fence) turned(ctx context.Context, p *probePath) (routed bool, err error) {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	arrived := make(chan struct{})
	p.await(nonce, arrived)
	defer p.await([nonceSize]byte{}, nil)
	conn, err := f.dial(ctx, p.probe.String())
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return false, nil
	case err != nil:
		return true, ErrFenceTurn
	}
	defer reset(conn)
	if _, err := conn.Write(nonce[:]); err != nil {
		return true, ErrFenceTurn
	}
	select {
	case <-arrived:
		return true, nil
	case <-ctx.Done():
		return true, ErrFenceTurn
	}
}

func (p *probePath) await(nonce [nonceSize]byte, arrived chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonce, p.arrived = nonce, arrived
}

// accept takes one connection after the other, so that whoever gets here while there are no rules holds up only the check.
func (f *Fence) accept(p *probePath) {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // a lack of descriptors passes
			continue
		}
		f.receive(p, conn.(*net.TCPConn))
		_ = conn.Close()
	}
}

func (f *Fence) receive(p *probePath, conn *net.TCPConn) {
	if to, err := f.original(conn); err != nil || to != p.probe {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(fenceTimeout / 2))
	var nonce [nonceSize]byte
	if _, err := io.ReadFull(conn, nonce[:]); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arrived != nil && nonce == p.nonce {
		close(p.arrived)
		p.arrived = nil
	}
}

// fenceDenial denies while the fence is not in force: then nobody vouches that it is a listener's tool that connects to it.
func (p *Proxy) fenceDenial() *Denial {
	if err := p.fence.InForce(); err != nil {
		return deny(NotReady, "The fence around the pod is not in force.", err)
	}
	return nil
}
