package inject

import (
	"fmt"
	"net/netip"
	"slices"
)

// The addresses that never leave the machine.
var (
	local4 = netip.MustParsePrefix("127.0.0.0/8")
	local6 = netip.MustParsePrefix("::1/128")
)

// Rules are the rules of a valid plan, in the order in which the kernel tries them. The first that matches decides.
func Rules(p Plan) []Rule {
	all := p.turns()
	for _, t := range p.Tools {
		all = append(all, redirects(p, t)...)
	}
	all = append(all, p.answers()...)
	all = append(all, p.owners()...)
	all = append(all, conversations()...)
	all = append(all, p.returns()...)
	all = append(all, p.leaving()...)
	for _, t := range p.Tools {
		all = append(all, p.entrance(t)...)
	}
	all = append(all, p.closedPorts()...)
	all = append(all, p.paths()...)
	all = append(all, p.ownLoopback()...)
	all = append(all,
		Rule{Chain: Fence, Name: "every other connection", Proto: tcp, Do: Reject},
		Rule{Chain: Fence, Name: "everything else", Do: Reject})
	return append(all, p.exits()...)
}

// exits keep what is for a loopback address in the pod. A socket that is bound to another interface (SO_BINDTODEVICE, which needs
// no capability) sends it out there, redirected or not, and a node with route_localnet, as kube-proxy sets it, takes it for its own.
func (p Plan) exits() []Rule {
	all := []Rule{{Chain: Exit, Name: "over loopback", OutLo: true, Do: Accept}}
	for _, local := range p.local() {
		all = append(all, Rule{
			Chain: Exit, Name: fmt.Sprintf("%s that is not for loopback", family(local.Addr())), Dst: local, NotDst: true, Do: Accept,
		})
	}
	return all
}

// local are the loopback ranges of the families that the plan knows.
func (p Plan) local() []netip.Prefix {
	if !p.IPv6 {
		return []netip.Prefix{local4}
	}
	return []netip.Prefix{local4, local6}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// redirects turn what a tool sends to its proxy. Queries for names come first, since they may go to a loopback address.
func redirects(p Plan, t Tool) []Rule {
	var all []Rule
	if t.DNS != 0 {
		for _, proto := range []uint8{udp, tcp} {
			all = append(all, Rule{
				Chain: Redirect, Name: fmt.Sprintf("uid %d, DNS over %s", t.UID, protoName(proto)),
				UID: t.UID, Proto: proto, Port: 53, Do: RedirectTo, To: t.DNS,
			})
		}
	}
	if !t.Transparent {
		return all
	}
	for _, local := range p.local() {
		all = append(all, Rule{
			Chain: Redirect, Name: fmt.Sprintf("uid %d, %s", t.UID, family(local.Addr())),
			UID: t.UID, Dst: local, NotDst: true, Proto: tcp, Do: RedirectTo, To: t.Listener.Port(),
		})
	}
	return all
}

// turns send the proxy's probes back to it, and returns let them in.
func (p Plan) turns() []Rule {
	var all []Rule
	for _, probe := range p.Probes {
		a := probe.Addr()
		all = append(all, Rule{
			Chain: Redirect, Name: "the proxy's probe over " + family(a),
			UID: p.Proxy, Dst: netip.PrefixFrom(a, a.BitLen()), Proto: tcp, Port: probe.Port(), Do: RedirectTo, To: probe.Port(),
		})
	}
	return all
}

func (p Plan) returns() []Rule {
	var all []Rule
	for _, probe := range p.Probes {
		a := loopback6
		if probe.Addr().Is4() {
			a = loopback4
		}
		all = append(all, Rule{
			Chain: Fence, Name: "the proxy's probe back over " + family(a),
			UID: p.Proxy, Dst: netip.PrefixFrom(a, a.BitLen()), Proto: tcp, Port: probe.Port(), DNAT: true, SetMark: p.Proxy, Do: Accept,
		})
	}
	return all
}

// answers hold a connection over loopback to the user at whose end it should arrive: entrance, paths and ownLoopback mark it
// with that user's id, and the packet that answers carries the id of the socket that listens. Otherwise a tool could listen in the
// proxy's place while the proxy is down, or on the address that it leaves free, and be given what another tool sends.
//
// These rules come before the one for established connections, as for the kernel a connection is established with that answer.
// Matching every SYN and not SYN+ACK alone covers two ends that dial each other at once (RFC 9293, section 3.5).
func (p Plan) answers() []Rule {
	var all []Rule
	add := func(uid uint32, proto uint8) {
		right := Rule{
			Chain: Fence, Name: fmt.Sprintf("uid %d answers over %s", uid, protoName(proto)),
			UID: uid, Proto: proto, SYN: proto == tcp, Reply: true, Mark: uid, Do: Accept,
		}
		wrong := right
		// Not Reject: an ICMP error would go to the end that answers, which needs no telling.
		wrong.Name, wrong.UID, wrong.Do = fmt.Sprintf("another answers for uid %d over %s", uid, protoName(proto)), 0, Drop
		all = append(all, right, wrong)
	}
	add(p.Proxy, tcp)
	if slices.ContainsFunc(p.Tools, func(t Tool) bool { return t.DNS != 0 }) {
		add(p.Proxy, udp)
	}
	var known []uint32
	listens := func(uid uint32) {
		if !slices.Contains(known, uid) {
			known = append(known, uid)
			add(uid, tcp)
		}
	}
	for _, t := range p.Tools {
		listens(t.UID)
	}
	for _, path := range p.Paths {
		listens(path.To)
	}
	return all
}

// owners keep a connection that the kernel still remembers with the user that began it. A socket of the proxy's that is closed
// leaves its port free and, for up to two minutes of UDP, an entry in the kernel's table: whoever binds that port and sends
// to the same place is taken for the same connection, is not redirected, and would pass as established. No connection of
// TCP can be taken over like that but by a SYN. What is sent over loopback, redirected or not, is others' rules' business.
func (p Plan) owners() []Rule {
	var all []Rule
	for _, local := range p.local() {
		for _, proto := range []uint8{udp, tcp} {
			answer := Rule{
				Chain: Fence, Name: fmt.Sprintf("answers of %s over %s", protoName(proto), family(local.Addr())),
				Dst: local, NotDst: true, Proto: proto, SYN: proto == tcp, State: established, Reply: true, Do: Accept,
			}
			own, other := answer, answer
			own.Name, own.UID, own.Reply = fmt.Sprintf("the proxy's %s goes on over %s", protoName(proto), family(local.Addr())), p.Proxy, false
			other.Name, other.Reply, other.Do = fmt.Sprintf("another's %s on it over %s", protoName(proto), family(local.Addr())), false, Reject
			all = append(all, answer, own, other)
		}
	}
	return all
}

// conversations are packets of connections that were let through. They are not matched by user: a socket that was closed has
// none any more, and neither has one that waits to be accepted. Of related packets ICMP errors and resets pass, which is how
// Reject answers, and no connection that a helper of the kernel expects.
func conversations() []Rule {
	return []Rule{
		{Chain: Fence, Name: "established", State: established, Do: Accept},
		{Chain: Fence, Name: "ICMP errors", Family: 4, Proto: icmp, State: related, Do: Accept},
		{Chain: Fence, Name: "ICMPv6 errors", Family: 6, Proto: icmpv6, State: related, Do: Accept},
		{Chain: Fence, Name: "resets", Proto: tcp, RST: true, State: related, Do: Accept},
	}
}

// leaving is what may leave the pod. The proxy may not begin anything on loopback: neither its own ports nor another
// container's are a place to be sent to. Neighbour discovery (RFC 4861) and reports of group membership (RFC 3810) are the
// kernel's and have no user.
func (p Plan) leaving() []Rule {
	var all []Rule
	for _, local := range p.local() {
		all = append(all, Rule{
			Chain: Fence, Name: fmt.Sprintf("the proxy leaves over %s", family(local.Addr())),
			UID: p.Proxy, Dst: local, NotDst: true, Do: Accept,
		})
	}
	if p.IPv6 {
		all = append(all,
			Rule{Chain: Fence, Name: "router solicitation", Family: 6, Proto: icmpv6, Types: []uint8{133}, Do: Accept},
			Rule{Chain: Fence, Name: "neighbour discovery", Family: 6, Proto: icmpv6, Types: []uint8{135, 136}, Do: Accept},
			Rule{Chain: Fence, Name: "multicast reports", Family: 6, Proto: icmpv6, Types: []uint8{143}, Do: Accept},
		)
	}
	return all
}

// entrance is how a tool reaches its listener. A transparent listener is reached by redirection only, so that it always finds
// the address that was meant. The interface is not matched: in this hook a redirected packet still has the one that it would
// have left by.
func (p Plan) entrance(t Tool) []Rule {
	var all []Rule
	add := func(a netip.Addr, r Rule) {
		if a.Is4() || p.IPv6 {
			r.Chain, r.UID, r.Dst = Fence, t.UID, netip.PrefixFrom(a, a.BitLen())
			r.SetMark, r.Do = p.Proxy, Accept
			all = append(all, r)
		}
	}
	for _, a := range t.addresses() {
		add(a, Rule{
			Name:  fmt.Sprintf("uid %d to its listener over %s", t.UID, family(a)),
			Proto: tcp, Port: t.Listener.Port(), DNAT: t.Transparent,
		})
	}
	if t.DNS != 0 {
		for _, proto := range []uint8{udp, tcp} {
			for _, a := range []netip.Addr{loopback4, loopback6} {
				add(a, Rule{
					Name:  fmt.Sprintf("uid %d to the name server over %s and %s", t.UID, protoName(proto), family(a)),
					Proto: proto, Port: t.DNS, DNAT: true,
				})
			}
		}
	}
	return all
}

// closedPorts keep tools away from every port of the sidecar that entrance did not let them to. ownLoopback's mark would do
// so as well, but the tool would wait for an answer instead of being told.
func (p Plan) closedPorts() []Rule {
	var all []Rule
	for _, port := range p.ports() {
		all = append(all, Rule{Chain: Fence, Name: fmt.Sprintf("port %d of the sidecar", port), Proto: tcp, Port: port, Do: Reject})
	}
	return all
}

// paths are the connections over loopback from one user to another that the plan allows.
func (p Plan) paths() []Rule {
	var all []Rule
	for _, path := range p.Paths {
		for _, local := range p.local() {
			all = append(all, Rule{
				Chain: Fence, Name: fmt.Sprintf("uid %d to port %d of uid %d over %s", path.From, path.Port, path.To, family(local.Addr())),
				UID: path.From, Dst: local, Proto: tcp, Port: path.Port, SetMark: path.To, Do: Accept,
			})
		}
	}
	return all
}

// ownLoopback lets a tool begin a connection over loopback; only itself may answer.
func (p Plan) ownLoopback() []Rule {
	var all []Rule
	for _, t := range p.Tools {
		for _, local := range p.local() {
			all = append(all, Rule{
				Chain: Fence, Name: fmt.Sprintf("uid %d to itself over %s", t.UID, family(local.Addr())),
				UID: t.UID, Dst: local, Proto: tcp, SetMark: t.UID, Do: Accept,
			})
		}
	}
	return all
}
