package inject

import (
	"fmt"
	"net/netip"
	"strings"
)

// Table is the name of the table, of the family inet, that holds the fence.
const Table = "toolgate"

// Chain is one of the chains of the table. All see what processes of this namespace send.
type Chain string

// The chains. Redirect is of type nat, at priority -100. Fence is of type filter, at priority 0. Exit is of type filter as well, in
// the hook postrouting, which alone knows by which interface a redirected packet leaves. Fence and Exit drop what no rule accepts.
const (
	Redirect Chain = "redirect"
	Fence    Chain = "fence"
	Exit     Chain = "exit"
)

func everyChain() []Chain { return []Chain{Redirect, Fence, Exit} }

// Action is what becomes of a packet that a rule matches.
type Action int

// The actions. Reject, the zero value, answers with "administratively prohibited", so that the sender fails at once.
const (
	Reject Action = iota
	Drop
	Accept
	RedirectTo // to the port of Rule.To, on the loopback address
)

// The protocols that rules match.
const (
	icmp   uint8 = 1
	tcp    uint8 = 6
	udp    uint8 = 17
	icmpv6 uint8 = 58
)

// State is a set of states of connection tracking.
type State uint32

// The states that rules match, with the kernel's values.
const (
	established State = 2
	related     State = 4
)

// Rule is one rule of a chain. It matches a packet that everything set in it matches; what is zero is not looked at.
type Rule struct {
	Chain Chain
	Name  string // unique in the chain; stored with the rule as its comment

	UID    uint32       // of the socket. A packet without a socket matches no UID
	Family uint8        // 4 or 6
	Dst    netip.Prefix // implies Family
	NotDst bool         // everything but Dst
	OutLo  bool         // leaves by the loopback interface; in Exit only
	Proto  uint8
	Port   uint16  // of the destination; with tcp and udp
	Types  []uint8 // with icmpv6: one, or the first and the last of several
	SYN    bool    // with tcp: opens a connection, from either side
	RST    bool    // with tcp: a reset
	State  State
	DNAT   bool   // redirected by the chain above
	Reply  bool   // against the direction that the connection was opened in
	Mark   uint32 // of the connection

	SetMark uint32 // marks the connection before Do
	Do      Action
	To      uint16
}

// String is the rule in the language of nft(8).
func (r Rule) String() string {
	var b strings.Builder
	add := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if r.UID != 0 {
		add("meta skuid %d", r.UID)
	}
	if r.OutLo {
		add("oif lo")
	}
	if r.Dst.IsValid() {
		add("%s daddr %s%s", map[bool]string{true: "ip", false: "ip6"}[r.Dst.Addr().Is4()], map[bool]string{true: "!= "}[r.NotDst], prefixText(r.Dst))
	} else if r.Family != 0 {
		add("meta nfproto ipv%d", r.Family)
	}
	if r.Proto != 0 && r.Port == 0 && len(r.Types) == 0 && !r.SYN && !r.RST {
		add("meta l4proto %s", protoName(r.Proto))
	}
	if r.Port != 0 {
		add("%s dport %d", protoName(r.Proto), r.Port)
	}
	if len(r.Types) > 0 {
		add("icmpv6 type %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(r.Types), "[]"), " ", "-"))
	}
	if r.SYN {
		add("tcp flags & syn != 0")
	}
	if r.RST {
		add("tcp flags & rst != 0")
	}
	r.connText(add)
	switch r.Do {
	case Accept:
		add("accept")
	case Drop:
		add("drop")
	case RedirectTo:
		add("redirect to :%d", r.To)
	default:
		add("reject with %s", map[bool]string{true: "tcp reset", false: "icmpx admin-prohibited"}[r.Proto == tcp])
	}
	return b.String()
}

// connText is what a rule asks and says of a packet's connection.
func (r Rule) connText(add func(string, ...any)) {
	switch r.State {
	case established:
		add("ct state established")
	case related:
		add("ct state related")
	}
	if r.DNAT {
		add("ct status dnat")
	}
	if r.Reply {
		add("ct direction reply")
	}
	if r.Mark != 0 {
		add("ct mark %d", r.Mark)
	}
	if r.SetMark != 0 {
		add("ct mark set %d", r.SetMark)
	}
}

func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func protoName(p uint8) string {
	switch p {
	case icmp:
		return "icmp"
	case tcp:
		return "tcp"
	case udp:
		return "udp"
	case icmpv6:
		return "icmpv6"
	}
	return fmt.Sprint(p)
}
