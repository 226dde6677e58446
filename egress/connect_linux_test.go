package egress

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A port that is taken before the peer is known belongs to one connection, and a busy sidecar runs out of them.
func TestConnectSharesLocalPorts(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil && host == "::1" {
			continue // a machine without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		var at Attempts
		everything := func(netip.AddrPort) error { return nil }
		conn, err := connector(everything, &at)(t.Context(), netip.MustParseAddrPort(ln.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		late := 0
		if cerr := raw.Control(func(fd uintptr) {
			late, err = unix.GetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT)
		}); cerr != nil || err != nil || late != 1 {
			t.Errorf("%s: IP_BIND_ADDRESS_NO_PORT %d, %v, %v", host, late, cerr, err)
		}
	}
}

// An address that does not answer is given up in time though no timer runs: the socket keeps the deadline.
func TestDialOfASilentAddressEnds(t *testing.T) {
	port := silentPort(t)
	d := &Dialer{Addresses: &Addresses{Exempt: []Exemption{{Prefix: netip.MustParsePrefix("127.0.0.1/32"), Ports: []uint16{port}, Tools: []string{"t"}}}}, Timeout: 50 * time.Millisecond}
	_, err := d.Dial(t.Context(), "t", "127.0.0.1", port, nil)
	ne, ok := err.(net.Error)
	if !ok || !ne.Timeout() {
		t.Errorf("%v", err)
	}
}

// silentPort returns a port of 127.0.0.1 whose queue of connections is full: the kernel drops whatever asks for more.
func silentPort(t *testing.T) uint16 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*unix.SockaddrInet4).Port
	for range 4 {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(c) })
		_ = unix.Connect(c, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	return uint16(port)
}
