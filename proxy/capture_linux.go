package proxy

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// soOriginalDst is SO_ORIGINAL_DST of netfilter, and IP6T_SO_ORIGINAL_DST, which has the same number.
const soOriginalDst = 80

// originalDestination returns where a redirected connection was meant to go, or its own local address if it was not redirected.
func originalDestination(conn *net.TCPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	v4 := local.Addr().Unmap().Is4()
	var to netip.AddrPort
	cerr := raw.Control(func(fd uintptr) {
		if v4 {
			// The kernel writes a sockaddr_in, for which x/sys has no reader of its own; this one has its size or more.
			var m *unix.IPv6Mreq
			if m, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, soOriginalDst); err == nil {
				b := m.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
			}
			return
		}
		var m *unix.IPv6MTUInfo
		if m, err = unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, soOriginalDst); err == nil {
			port := m.Addr.Port // in network order, whatever this machine's is
			b := [2]byte{byte(port), byte(port >> 8)}
			to = netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), uint16(b[0])<<8|uint16(b[1]))
		}
	})
	if cerr != nil {
		return netip.AddrPort{}, cerr
	}
	return to, err
}
