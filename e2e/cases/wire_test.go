//go:build linux

package cases

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// wire sees every TCP connection that is begun in the namespace. A SYN is in its socket before connect has returned, so
// what a reply of the sidecar was preceded by is there when the reply is.
type wire struct {
	fd   int
	seen []netip.AddrPort // destinations, without those of the tests' own connections
	own  []netip.AddrPort // what the sidecar needs itself: name server, issuer
}

// tester is the address that the tests' own connections come from.
var tester = netip.MustParseAddr("127.0.0.9")

func newWire(t *testing.T) *wire {
	t.Helper()
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)) // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("packet socket: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	prog := synFilter(t)
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}); err != nil {
		t.Fatalf("filter: %v", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: 1}); err != nil {
		t.Fatalf("binding the packet socket: %v", err)
	}
	return &wire{fd: fd}
}

// synFilter passes TCP segments with SYN and without ACK. Neither header may have options, as Linux's have not.
func synFilter(t *testing.T) []unix.SockFilter {
	t.Helper()
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6, SkipTrue: 4},
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 7},
		bpf.LoadAbsolute{Off: 20 + 13, Size: 1},
		bpf.Jump{Skip: 3},
		bpf.LoadAbsolute{Off: 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 40 + 13, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x12},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x02, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 128},
	})
	if err != nil {
		t.Fatal(err)
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return prog
}

// dials returns the destinations since the last forget.
func (w *wire) dials() []netip.AddrPort {
	buf := make([]byte, 256)
	for {
		n, from, err := unix.Recvfrom(w.fd, buf, 0)
		if err != nil {
			return slices.Clone(w.seen)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype != unix.PACKET_OUTGOING {
			continue // loopback shows each packet twice
		}
		src, dst, ok := parseSYN(buf[:n])
		if ok && src != tester && !slices.Contains(w.own, dst) {
			w.seen = append(w.seen, dst)
		}
	}
}

func parseSYN(p []byte) (src netip.Addr, dst netip.AddrPort, ok bool) {
	switch {
	case len(p) >= 40 && p[0]>>4 == 4:
		src, _ = netip.AddrFromSlice(p[12:16])
		to, _ := netip.AddrFromSlice(p[16:20])
		return src, netip.AddrPortFrom(to, binary.BigEndian.Uint16(p[22:])), true
	case len(p) >= 60 && p[0]>>4 == 6:
		src, _ = netip.AddrFromSlice(p[8:24])
		to, _ := netip.AddrFromSlice(p[24:40])
		return src, netip.AddrPortFrom(to, binary.BigEndian.Uint16(p[42:])), true
	}
	return src, dst, false
}

func (w *wire) forget() {
	w.dials()
	w.seen = nil
}
