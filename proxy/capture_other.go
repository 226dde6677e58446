//go:build !linux

package proxy

import (
	"errors"
	"net"
	"net/netip"
)

// originalDestination needs netfilter.
func originalDestination(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("transparent listeners need Linux")
}
