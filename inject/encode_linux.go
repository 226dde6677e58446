package inject

import (
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	reg1 = 1 // every comparison uses this register, which the next may overwrite

	directionReply = 1      // IP_CT_DIR_REPLY
	statusDNAT     = 1 << 5 // IPS_DST_NAT
	flagSYN        = 0x02
	flagRST        = 0x04

	loopbackIndex = 1 // of lo, which is every namespace's first interface
)

// encode writes a rule as the kernel's expressions. Numbers of the kernel's own are in its byte order, those of packets in
// the network's.
func encode(r Rule) []expr.Any {
	var e exprs
	e.user(r)
	e.address(r)
	e.protocol(r)
	e.connection(r)
	e.action(r)
	return e
}

type exprs []expr.Any

func (e *exprs) add(x ...expr.Any) { *e = append(*e, x...) }

func (e *exprs) equal(load expr.Any, data []byte) {
	e.add(load, &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: data})
}

// any compares what is left of a loaded value under a mask with zero.
func (e *exprs) any(load expr.Any, mask []byte) {
	zero := make([]byte, len(mask))
	e.add(load, bitwise(mask), &expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: zero})
}

func bitwise(mask []byte) *expr.Bitwise {
	return &expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))}
}

func meta(key expr.MetaKey) *expr.Meta { return &expr.Meta{Key: key, Register: reg1} }

func ct(key expr.CtKey) *expr.Ct { return &expr.Ct{Key: key, Register: reg1} }

func payload(base expr.PayloadBase, offset, length uint32) *expr.Payload {
	return &expr.Payload{DestRegister: reg1, Base: base, Offset: offset, Len: length}
}

func (e *exprs) user(r Rule) {
	if r.UID != 0 {
		e.equal(meta(expr.MetaKeySKUID), binaryutil.NativeEndian.PutUint32(r.UID))
	}
}

func (e *exprs) address(r Rule) {
	if r.OutLo {
		e.equal(meta(expr.MetaKeyOIF), binaryutil.NativeEndian.PutUint32(loopbackIndex))
	}
	family := r.Family
	if r.Dst.IsValid() {
		family = 6
		if r.Dst.Addr().Is4() {
			family = 4
		}
	}
	switch family {
	case 4:
		e.equal(meta(expr.MetaKeyNFPROTO), []byte{unix.NFPROTO_IPV4})
	case 6:
		e.equal(meta(expr.MetaKeyNFPROTO), []byte{unix.NFPROTO_IPV6})
	}
	if !r.Dst.IsValid() {
		return
	}
	offset, data := uint32(24), r.Dst.Masked().Addr().AsSlice() // RFC 8200, section 3
	if family == 4 {
		offset = 16 // RFC 791, section 3.1
	}
	e.add(payload(expr.PayloadBaseNetworkHeader, offset, uint32(len(data))))
	if !r.Dst.IsSingleIP() {
		e.add(bitwise(netmask(r.Dst)))
	}
	op := expr.CmpOpEq
	if r.NotDst {
		op = expr.CmpOpNeq
	}
	e.add(&expr.Cmp{Op: op, Register: reg1, Data: data})
}

func netmask(p netip.Prefix) []byte {
	mask := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return mask
}

func (e *exprs) protocol(r Rule) {
	if r.Proto != 0 {
		e.equal(meta(expr.MetaKeyL4PROTO), []byte{r.Proto})
	}
	if r.Port != 0 {
		e.equal(payload(expr.PayloadBaseTransportHeader, 2, 2), binaryutil.BigEndian.PutUint16(r.Port))
	}
	if n := len(r.Types); n > 0 {
		e.add(payload(expr.PayloadBaseTransportHeader, 0, 1),
			&expr.Cmp{Op: expr.CmpOpGte, Register: reg1, Data: []byte{r.Types[0]}},
			&expr.Cmp{Op: expr.CmpOpLte, Register: reg1, Data: []byte{r.Types[n-1]}})
	}
	if r.SYN {
		e.any(payload(expr.PayloadBaseTransportHeader, 13, 1), []byte{flagSYN}) // RFC 9293, section 3.1
	}
	if r.RST {
		e.any(payload(expr.PayloadBaseTransportHeader, 13, 1), []byte{flagRST})
	}
}

func (e *exprs) connection(r Rule) {
	if r.State != 0 {
		e.any(ct(expr.CtKeySTATE), binaryutil.NativeEndian.PutUint32(uint32(r.State)))
	}
	if r.DNAT {
		e.any(ct(expr.CtKeySTATUS), binaryutil.NativeEndian.PutUint32(statusDNAT))
	}
	if r.Reply {
		e.equal(ct(expr.CtKeyDIRECTION), []byte{directionReply})
	}
	if r.Mark != 0 {
		e.equal(ct(expr.CtKeyMARK), binaryutil.NativeEndian.PutUint32(r.Mark))
	}
	if r.SetMark != 0 {
		e.add(&expr.Immediate{Register: reg1, Data: binaryutil.NativeEndian.PutUint32(r.SetMark)},
			&expr.Ct{Key: expr.CtKeyMARK, Register: reg1, SourceRegister: true})
	}
}

func (e *exprs) action(r Rule) {
	switch r.Do {
	case Accept:
		e.add(&expr.Verdict{Kind: expr.VerdictAccept})
	case Drop:
		e.add(&expr.Verdict{Kind: expr.VerdictDrop})
	case RedirectTo:
		// The kernel reports the upper bound and the flag also when it was not given them; readback compares.
		e.add(&expr.Immediate{Register: reg1, Data: binaryutil.BigEndian.PutUint16(r.To)},
			&expr.Redir{RegisterProtoMin: reg1, RegisterProtoMax: reg1, Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED})
	default:
		if r.Proto == tcp {
			// An ICMPv6 error would be known to a connect that is under way only when it tries again, a second later.
			e.add(&expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
			return
		}
		e.add(&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED})
	}
}
