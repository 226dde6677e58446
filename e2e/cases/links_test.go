//go:build linux

package cases

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What ip(8) would do, in the few messages of rtnetlink(7) that the tests need.

// everythingLocal adds the route "local default dev lo": the kernel then takes every destination for one of its own addresses.
func everythingLocal(family byte) error {
	const loopback = 1 // index of lo in every namespace
	return addRoute(family, unix.RTN_LOCAL, unix.RT_TABLE_LOCAL, netip.Prefix{}, netip.Addr{}, loopback)
}

// addRoute adds a route to a prefix, the zero one for every address, over a link, and by a gateway unless that is zero.
func addRoute(family, kind, table byte, to netip.Prefix, gateway netip.Addr, link int) error {
	scope := byte(unix.RT_SCOPE_UNIVERSE)
	if kind == unix.RTN_LOCAL {
		scope = unix.RT_SCOPE_HOST
	} else if !gateway.IsValid() {
		scope = unix.RT_SCOPE_LINK
	}
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[4], head[5], head[6], head[7] = family, table, unix.RTPROT_BOOT, scope, kind
	attrs := netlink.NewAttributeEncoder()
	if to.IsValid() {
		head[1] = byte(to.Bits())
		attrs.Bytes(unix.RTA_DST, to.Addr().AsSlice())
	}
	if gateway.IsValid() {
		attrs.Bytes(unix.RTA_GATEWAY, gateway.AsSlice())
	}
	attrs.Uint32(unix.RTA_OIF, uint32(link))
	return rtnetlink(unix.RTM_NEWROUTE, netlink.Create, head, attrs)
}

// addVeth joins this namespace to another by a pair of links.
func addVeth(name, peer string, peerNamespace int) error {
	attrs := netlink.NewAttributeEncoder()
	attrs.String(unix.IFLA_IFNAME, name)
	attrs.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "veth")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			const vethInfoPeer = 1
			inner := netlink.NewAttributeEncoder()
			inner.String(unix.IFLA_IFNAME, peer)
			inner.Uint32(unix.IFLA_NET_NS_FD, uint32(peerNamespace))
			b, err := inner.Encode()
			data.Bytes(vethInfoPeer, append(make([]byte, unix.SizeofIfInfomsg), b...))
			return err
		})
		return nil
	})
	return rtnetlink(unix.RTM_NEWLINK, netlink.Create|netlink.Excl, make([]byte, unix.SizeofIfInfomsg), attrs)
}

// linkUp gives a link its addresses, usable at once, and switches it on. It returns the link's index.
func linkUp(name string, addresses ...netip.Prefix) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	for _, a := range addresses {
		head := make([]byte, unix.SizeofIfAddrmsg)
		head[0], head[1], head[2] = familyOf(a.Addr()), byte(a.Bits()), unix.IFA_F_NODAD
		binary.NativeEndian.PutUint32(head[4:], uint32(link.Index))
		attrs := netlink.NewAttributeEncoder()
		attrs.Bytes(unix.IFA_LOCAL, a.Addr().AsSlice())
		attrs.Bytes(unix.IFA_ADDRESS, a.Addr().AsSlice())
		if err := rtnetlink(unix.RTM_NEWADDR, netlink.Create|netlink.Excl, head, attrs); err != nil {
			return 0, err
		}
	}
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(link.Index))
	binary.NativeEndian.PutUint32(head[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(head[12:], unix.IFF_UP)
	return link.Index, rtnetlink(unix.RTM_NEWLINK, 0, head, nil)
}

func removeLink(index int) error {
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(index))
	return rtnetlink(unix.RTM_DELLINK, 0, head, nil)
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// rtnetlink sends one message, of this thread's namespace, and waits for its acknowledgement.
func rtnetlink(kind netlink.HeaderType, flags netlink.HeaderFlags, head []byte, attrs *netlink.AttributeEncoder) error {
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
