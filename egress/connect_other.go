//go:build !linux

package egress

import (
	"context"
	"net"
	"net/netip"
	"syscall"
)

// dialTCP connects to one peer. Not DialTCP: it binds a local port before it connects, which then cannot be shared between
// peers.
func dialTCP(ctx context.Context, nd *net.Dialer, peer netip.AddrPort) (*net.TCPConn, error) {
	conn, err := nd.DialContext(ctx, "tcp", peer.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func sharePort(syscall.RawConn) error { return nil }
