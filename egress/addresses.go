package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Addresses judges addresses. The zero value, and nil, have no exemptions and deny every special-purpose address. It is
// safe for concurrent use as long as nobody changes its fields.
type Addresses struct {
	Exempt  []Exemption
	Cluster []netip.Prefix   // pod, service and node ranges of this cluster, denied even where they are public space
	Own     []netip.AddrPort // the sidecar's own listeners, never reachable, exempt or not; an unspecified address means every local one

	interfaces func() ([]netip.Addr, error) // nil: those of the host
}

// AddressError says that an address is not for this tool. Its text names the reason and not the address.
type AddressError struct {
	Addr   netip.AddrPort // for records and debugging, never for the tool
	Reason string         // the table row's name, for example "Link local"
}

// Reasons of an AddressError beside the names of the table's rows.
const (
	reasonInvalid = "Not an address"
	reasonZone    = "Address with a zone"
	reasonOwn     = "The sidecar's own listener"
	reasonCluster = "Cluster network"
)

// Error names the reason.
func (e *AddressError) Error() string { return "the address is not allowed: " + e.Reason }

// Judge returns nil if tool may connect to ap, else *AddressError. An IPv4-mapped address is judged as its IPv4 address.
// A zone is refused: it would single out an interface of the pod.
func (a *Addresses) Judge(tool string, ap netip.AddrPort) error {
	if reason := a.judge(tool, ap.Addr(), ap.Port()); reason != "" {
		return &AddressError{Addr: ap, Reason: reason}
	}
	return nil
}

// JudgeHost judges a canonical host that is an address, and returns nil for a name, which only a dial can judge.
func (a *Addresses) JudgeHost(tool, host string, port uint16) error {
	if !isAddress(host) {
		return nil
	}
	// A host that is neither a name nor an address is judged as the invalid address, which nothing allows.
	addr, _ := netip.ParseAddr(host)
	return a.Judge(tool, netip.AddrPortFrom(addr, port))
}

// JudgeProxy returns nil if the upstream proxy may be dialled at ap, else *AddressError. The operator named the proxy, so
// every network is allowed; the sidecar's own listeners are not, and neither is the unspecified address, which means this
// host.
func (a *Addresses) JudgeProxy(ap netip.AddrPort) error {
	addr, reason := ap.Addr().Unmap(), ""
	switch {
	case !addr.IsValid() || ap.Port() == 0:
		reason = reasonInvalid
	case addr.IsUnspecified(), a.isOwn(addr, ap.Port()):
		reason = reasonOwn
	default:
		return nil
	}
	return &AddressError{Addr: ap, Reason: reason}
}

// judge returns the reason of a denial, or "".
func (a *Addresses) judge(tool string, addr netip.Addr, port uint16) string {
	switch {
	case !addr.IsValid() || port == 0:
		return reasonInvalid
	case addr.Zone() != "":
		return reasonZone
	}
	addr = addr.Unmap()
	if a.isOwn(addr, port) {
		return reasonOwn
	}
	reason, c := "", wide
	if row := special(addr); row != nil {
		reason, c = row.name, row.class
	} else if a.inCluster(addr) {
		reason = reasonCluster
	}
	if reason == "" || a.exempt(tool, addr, port, c) {
		return ""
	}
	return reason
}

func (a *Addresses) exempt(tool string, addr netip.Addr, port uint16, c class) bool {
	if a == nil {
		return false
	}
	for i := range a.Exempt {
		if a.Exempt[i].lifts(tool, addr, port, c) {
			return true
		}
	}
	return false
}

func (a *Addresses) inCluster(addr netip.Addr) bool {
	if a == nil {
		return false
	}
	for _, p := range a.Cluster {
		if mapped := p.Addr(); mapped.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(mapped.Unmap(), p.Bits()-96)
		}
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// isOwn reports whether a listener of the sidecar answers at addr. All of loopback counts as one host.
func (a *Addresses) isOwn(addr netip.Addr, port uint16) bool {
	if a == nil {
		return false
	}
	for _, own := range a.Own {
		if own.Port() != port {
			continue
		}
		at := own.Addr().Unmap().WithZone("")
		if addr == at || addr.IsLoopback() || at.IsUnspecified() && a.isLocal(addr) {
			return true
		}
	}
	return false
}

// isLocal reports whether addr is one of this host's. If the host does not tell, every address may be.
func (a *Addresses) isLocal(addr netip.Addr) bool {
	list := a.interfaces
	if list == nil {
		list = hostAddresses
	}
	local, err := list()
	return err != nil || slices.Contains(local, addr)
}

// hostAddresses returns the addresses of the host's interfaces as they were at the first call: a pod keeps its
// addresses for life, and a netlink dump is too much for the path of a call.
var hostAddresses = sync.OnceValues(func() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
})
