package egress

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialTCP connects to one peer, past what net does to find out what a text means.
func dialTCP(ctx context.Context, nd *net.Dialer, peer netip.AddrPort) (*net.TCPConn, error) {
	return nd.DialTCP(ctx, "tcp", netip.AddrPort{}, peer)
}

// sharePort has the kernel choose the local port at connect. DialTCP binds its socket before that, and a port that was chosen
// then could not be shared between peers: some 28,000 connections would use all of them up (ip(7), IP_BIND_ADDRESS_NO_PORT).
// Without it (a kernel before 4.2) the dial works all the same, so that its error is not asked for.
func sharePort(c syscall.RawConn) error { return c.Control(bindNoPort) }

func bindNoPort(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}
