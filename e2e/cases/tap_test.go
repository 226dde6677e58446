//go:build linux

package cases

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// tap sees every packet that leaves a pod.
type tap struct {
	fd   int
	seen map[left]int
}

// left is what a packet was and where it went.
type left struct {
	proto uint8 // of IP: the first header's next
	to    netip.AddrPort
	from  uint16
}

func (l left) String() string {
	return fmt.Sprintf("protocol %d from port %d to %s", l.proto, l.from, l.to)
}

func newTap(t *testing.T, link int) *tap {
	t.Helper()
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)) // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("packet socket: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link}); err != nil {
		t.Fatalf("binding the packet socket: %v", err)
	}
	return &tap{fd: fd, seen: map[left]int{}}
}

// read takes in what has come since.
func (p *tap) read() {
	buf := make([]byte, 256)
	for {
		n, from, err := unix.Recvfrom(p.fd, buf, 0)
		if err != nil {
			return
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue // towards the pod
		}
		if l, ok := parseLeft(buf[:n]); ok {
			p.seen[l]++
		}
	}
}

// parseLeft leaves out what the kernel sends for itself: ARP, neighbour discovery (RFC 4861) and group membership (RFC 3810).
func parseLeft(b []byte) (l left, ok bool) {
	var to netip.Addr
	var rest []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		l.proto = b[9]
		to, _ = netip.AddrFromSlice(b[16:20])
		rest = b[min(len(b), int(b[0]&15)*4):]
	case len(b) >= 40 && b[0]>>4 == 6:
		l.proto = b[6]
		to, _ = netip.AddrFromSlice(b[24:40])
		rest = b[40:]
		if to.IsMulticast() || l.proto == unix.IPPROTO_ICMPV6 && len(rest) > 0 && rest[0] >= 133 && rest[0] <= 136 {
			return l, false
		}
	default:
		return l, false
	}
	if len(rest) >= 4 && (l.proto == unix.IPPROTO_TCP || l.proto == unix.IPPROTO_UDP) {
		l.from, l.to = binary.BigEndian.Uint16(rest), netip.AddrPortFrom(to, binary.BigEndian.Uint16(rest[2:]))
		return l, true
	}
	l.to = netip.AddrPortFrom(to, 0)
	return l, true
}

func (p *tap) forget() {
	p.read()
	clear(p.seen)
}

// proxys reports whether the packet is one that the sidecar has a reason to send: to the upstreams, to its name server, or
// from its admin port.
func (l left) proxys() bool {
	to := l.to.Addr().Unmap().String()
	switch {
	case l.proto == unix.IPPROTO_TCP && (l.to.Port() == 443 || l.to.Port() == 80):
		return to == addrU1 || to == addrU2 || to == addrSix || to == addrIssuer
	case l.to.Port() == 53:
		return to == addrNS
	}
	return l.proto == unix.IPPROTO_TCP && l.from == 15020
}

// only fails the test if anything left the pod that the sidecar has no reason to send.
func (p *tap) only(t *testing.T) {
	t.Helper()
	p.read()
	for l, n := range p.seen {
		if !l.proxys() {
			t.Errorf("left the pod: %s, %d times", l, n)
		}
	}
}

// silent fails the test if anything left the pod, but for answers of the admin port and an idle connection to the issuer.
func (p *tap) silent(t *testing.T) {
	t.Helper()
	p.read()
	for l, n := range p.seen {
		if l.from != 15020 && l.to.Addr().String() != addrIssuer {
			t.Errorf("left the pod: %s, %d times", l, n)
		}
	}
}
