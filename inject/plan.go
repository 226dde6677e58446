package inject

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
)

// MaxTools is how many tools a plan may have, and how many paths. A pod has far fewer containers; rules are looked through one
// by one.
const MaxTools = 32

// Plan is who may send what from a pod. Its zero value is refused, and what it does not name is rejected.
type Plan struct {
	Proxy uint32   // user id of the proxy, which alone may leave the pod
	Tools []Tool   // at least one
	Paths []Path   // over loopback, besides the tools' own
	Ports []uint16 // TCP ports of the sidecar besides the tools' own: other listeners, the admin port. No tool reaches them
	// Probes are addresses at which the proxy's own connections, to these ports, are turned around to the same port of loopback: by
	// that it sees that the rules are in force. Also those of IPv6 are, whether it may pass or not.
	Probes []netip.AddrPort
	IPv6   bool // false rejects IPv6 altogether
	// HostNetwork lets Apply change the network namespace that the machine started with. That is for a virtual machine that is
	// one pod; anywhere else it would cut off everything on the machine, the kubelet included.
	HostNetwork bool
}

// Tool is the fence of one user id.
type Tool struct {
	UID      uint32
	Listener netip.AddrPort // on a loopback address, or on the unspecified one
	// Transparent redirects every TCP connection that leaves the pod to Listener. Otherwise such connections are rejected, and
	// the tool has to dial Listener itself. A transparent listener must not accept Multipath TCP, as Go's do by default: the
	// kernel does not tell of such a connection what address was meant.
	Transparent bool
	// DNS is the UDP and TCP port of the name server of ours to which this tool's queries go, wherever they were sent; 0: they
	// are rejected.
	DNS uint16
}

// Path lets one user id connect, over loopback, to a TCP port on which another listens.
type Path struct {
	From, To uint32
	Port     uint16
}

// The addresses that redirected connections arrive at: the kernel picks them, whatever the listener is bound to.
var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// Validate says what is wrong with a plan, or nil.
func (p Plan) Validate() error {
	if err := validUID(p.Proxy); err != nil {
		return fmt.Errorf("the proxy: %w", err)
	}
	if len(p.Tools) == 0 {
		return fmt.Errorf("found no tool, expected at least one")
	}
	if len(p.Tools) > MaxTools || len(p.Paths) > MaxTools {
		return fmt.Errorf("found %d tools and %d paths, expected at most %d of each", len(p.Tools), len(p.Paths), MaxTools)
	}
	seen := map[uint32]bool{}
	for _, t := range p.Tools {
		switch err := validUID(t.UID); {
		case err != nil:
			return fmt.Errorf("a tool: %w", err)
		case t.UID == p.Proxy:
			return fmt.Errorf("found uid %d for a tool and for the proxy, expected another: the proxy's may leave the pod", t.UID)
		case seen[t.UID]:
			return fmt.Errorf("found uid %d twice, expected one listener for each", t.UID)
		}
		seen[t.UID] = true
		if err := t.reachable(); err != nil {
			return err
		}
	}
	for _, path := range p.Paths {
		if err := p.validPath(path); err != nil {
			return err
		}
	}
	for i, probe := range p.Probes {
		if i >= 2 || probe.Port() == 0 || !probe.Addr().IsValid() || probe.Addr().IsLoopback() || i == 1 && probe.Addr().Is4() == p.Probes[0].Addr().Is4() {
			return fmt.Errorf("found probes %v, expected at most one of each family, that are not loopback addresses", p.Probes)
		}
	}
	for _, port := range p.Ports {
		if port == 0 {
			return fmt.Errorf("found port 0, expected the number of a port")
		}
	}
	return nil
}

// validUID refuses root, which could take any other user's id, and the highest id, which stands for no user at all.
func validUID(uid uint32) error {
	if uid == 0 || uid == math.MaxUint32 {
		return fmt.Errorf("found uid %d, expected 1 to %d: root is never let out", uid, uint32(math.MaxUint32-1))
	}
	return nil
}

// validPath refuses a way around the tools' listeners to a port of the sidecar.
func (p Plan) validPath(path Path) error {
	if err := errors.Join(validUID(path.From), validUID(path.To)); err != nil {
		return fmt.Errorf("a path over loopback: %w", err)
	}
	if path.To == p.Proxy || path.Port == 0 || slices.Contains(p.ports(), path.Port) {
		return fmt.Errorf("found a path over loopback to port %d of uid %d, expected one that is not the sidecar's", path.Port, path.To)
	}
	return nil
}

// ports are all TCP ports of the sidecar, each once.
func (p Plan) ports() []uint16 {
	all := make([]uint16, 0, len(p.Tools)+len(p.Ports)+1)
	add := func(port uint16) {
		if port != 0 && !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	for _, t := range p.Tools {
		add(t.Listener.Port())
		add(t.DNS)
	}
	for _, port := range p.Ports {
		add(port)
	}
	for _, probe := range p.Probes {
		add(probe.Port())
	}
	return all
}

func (t Tool) reachable() error {
	addr := t.Listener.Addr()
	switch {
	case t.Listener.Port() == 0:
		return fmt.Errorf("found listener %s for uid %d, expected one with a fixed port", t.Listener, t.UID)
	case addr.IsUnspecified(), addr == loopback4, addr == loopback6:
		return nil
	case t.Transparent:
		return fmt.Errorf("found listener %s for uid %d, expected 127.0.0.1 or ::1: redirected connections arrive there", t.Listener, t.UID)
	case addr.Is4() && addr.IsLoopback():
		return nil
	}
	return fmt.Errorf("found listener %s for uid %d, expected one on a loopback address", t.Listener, t.UID)
}

// addresses are those at which the tool reaches its listener.
func (t Tool) addresses() []netip.Addr {
	if t.Transparent || t.Listener.Addr().IsUnspecified() {
		return []netip.Addr{loopback4, loopback6}
	}
	return []netip.Addr{t.Listener.Addr()}
}
