package inject

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What ip(8) would do, in the few messages of rtnetlink(7) that the lab needs.

func linkUp(t *testing.T, name string) {
	t.Helper()
	must(t, setUp(name))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// worldLinks is the world's end of the veth pair.
func worldLinks() error {
	if err := setUp("lo"); err != nil {
		return err
	}
	for _, a := range []struct {
		address string
		bits    uint8
	}{{gate4, 24}, {gate6, 64}, {world4, 32}, {world6, 128}} {
		if err := address("world0", a.address, a.bits); err != nil {
			return err
		}
	}
	return setUp("world0")
}

func makeVeth(t *testing.T, name, peer string, peerPID int) {
	t.Helper()
	inner := netlink.NewAttributeEncoder()
	inner.String(unix.IFLA_IFNAME, peer)
	inner.Uint32(unix.IFLA_NET_NS_PID, uint32(peerPID))
	peerAttrs, err := inner.Encode()
	must(t, err)
	a := netlink.NewAttributeEncoder()
	a.String(unix.IFLA_IFNAME, name)
	a.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "veth")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			const vethInfoPeer = 1
			data.Bytes(vethInfoPeer, append(make([]byte, unix.SizeofIfInfomsg), peerAttrs...))
			return nil
		})
		return nil
	})
	must(t, route(unix.RTM_NEWLINK, netlink.Create|netlink.Excl, make([]byte, unix.SizeofIfInfomsg), a))
}

func removeLink(t *testing.T, name string) {
	t.Helper()
	ifi, err := net.InterfaceByName(name)
	must(t, err)
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(ifi.Index))
	must(t, route(unix.RTM_DELLINK, 0, head, nil))
}

func setUp(name string) error {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(ifi.Index))
	binary.NativeEndian.PutUint32(head[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(head[12:], unix.IFF_UP)
	return route(unix.RTM_NEWLINK, 0, head, nil)
}

func addAddress(t *testing.T, link, a string, bits uint8) {
	t.Helper()
	must(t, address(link, a, bits))
}

// address gives a link an address that is usable at once, without a search for duplicates.
func address(link, a string, bits uint8) error {
	ifi, err := net.InterfaceByName(link)
	if err != nil {
		return err
	}
	addr := netip.MustParseAddr(a)
	head := make([]byte, unix.SizeofIfAddrmsg)
	head[0], head[1], head[2] = familyOf(addr), bits, unix.IFA_F_NODAD
	binary.NativeEndian.PutUint32(head[4:], uint32(ifi.Index))
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.IFA_LOCAL, addr.AsSlice())
	attrs.Bytes(unix.IFA_ADDRESS, addr.AsSlice())
	return route(unix.RTM_NEWADDR, netlink.Create|netlink.Excl, head, attrs)
}

func addDefaultRoute(t *testing.T, link, gateway string) {
	t.Helper()
	ifi, err := net.InterfaceByName(link)
	must(t, err)
	addr := netip.MustParseAddr(gateway)
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[4], head[5], head[7] = familyOf(addr), unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.RTA_GATEWAY, addr.AsSlice())
	attrs.Uint32(unix.RTA_OIF, uint32(ifi.Index))
	must(t, route(unix.RTM_NEWROUTE, netlink.Create|netlink.Excl, head, attrs))
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// route sends one message of rtnetlink and waits for its acknowledgement.
func route(kind netlink.HeaderType, flags netlink.HeaderFlags, head []byte, attrs *netlink.AttributeEncoder) error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if attrs != nil {
		b, err := attrs.Encode()
		if err != nil {
			return err
		}
		head = append(head, b...)
	}
	_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: head})
	return err
}
