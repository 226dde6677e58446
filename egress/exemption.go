package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Exemption lifts the private-network block for exactly these prefixes, ports and tools; without ports or tools it lifts
// nothing. Loopback, link-local and metadata addresses are lifted only by a prefix of a single address (/32, /128).
// Multicast, broadcast, unspecified addresses and those that carry an IPv4 address (NAT64, 6to4, Teredo, ISATAP) are
// never lifted, and neither are the sidecar's own listeners.
type Exemption struct {
	Prefix netip.Prefix
	Ports  []uint16
	Tools  []string
}

// Validate returns an error for an exemption that lifts nothing or looks like a slip: no prefix, an IPv4-mapped prefix,
// host bits, length 0, a wide prefix with nothing inside but addresses that only a single one lifts, a prefix that is
// never lifted, no port, port 0, no tool.
func (e Exemption) Validate() error {
	p := e.Prefix
	switch {
	case !p.IsValid():
		return errors.New("the exemption has no prefix")
	case p.Addr().Is4In6():
		return fmt.Errorf("%s is IPv4-mapped; write the IPv4 prefix", p)
	case p.Bits() == 0:
		return fmt.Errorf("%s is everything; name the networks", p)
	case p != p.Masked():
		return fmt.Errorf("%s has host bits set; write %s or a single address", p, p.Masked())
	case len(e.Ports) == 0 || slices.Contains(e.Ports, 0):
		return fmt.Errorf("the exemption of %s names no port, or port 0", p)
	case len(e.Tools) == 0 || slices.Contains(e.Tools, ""):
		return fmt.Errorf("the exemption of %s names no tool, or an empty name", p)
	}
	switch c := widestClass(p); {
	case c == never:
		return fmt.Errorf("%s is never lifted (%s)", p, special(p.Addr()).name)
	case c == single && !p.IsSingleIP():
		return fmt.Errorf("%s is lifted one address at a time (%s); write each with its full length", p, special(p.Addr()).name)
	}
	return nil
}

// widestClass returns the class inside p that is lifted most easily; public space counts as wide, since a cluster may
// have its ranges there.
func widestClass(p netip.Prefix) class {
	if p.IsSingleIP() && special(p.Addr()) == &isatap {
		return never
	}
	widest := never
	last := lastAddr(p)
	for i := spanOf(p.Addr()); i < len(spans) && spans[i].from.Compare(last) <= 0; i++ {
		if spans[i].row == nil {
			return wide
		}
		widest = max(widest, spans[i].row.class)
	}
	return widest
}

// lifts reports whether the exemption covers a denial of class c. The address is never IPv4-mapped, so a mapped prefix
// contains none; a prefix of length 0 is not taken at its word either, for one too many stands for "switch it off".
func (e *Exemption) lifts(tool string, addr netip.Addr, port uint16, c class) bool {
	switch {
	case !e.Prefix.IsValid(), e.Prefix.Bits() == 0, !e.Prefix.Contains(addr):
		return false
	case c == wide || c == single && e.Prefix.IsSingleIP():
		return slices.Contains(e.Ports, port) && slices.Contains(e.Tools, tool)
	}
	return false
}
