package config

import "net/netip"

// listeners checks names, addresses and tools of the proxy ports, and the admin port's address beside them.
func (c *sidecar) listeners() []Listener {
	var out []Listener
	names := map[string]mark{}
	bound := &addresses{}
	for _, f := range c.raw.Listeners.V {
		raw := &f.V
		if !f.present || raw.Name.at.line == 0 {
			continue // not a mapping
		}
		if first, twice := names[string(raw.Name.V)]; twice && raw.Name.ok {
			c.errorf(raw.Name.at, "found listener %s a second time, expected unique names; the first is at %d:%d",
				quote(string(raw.Name.V)), first.line, first.col)
		} else if raw.Name.ok {
			names[string(raw.Name.V)] = raw.Name.at
		}
		if (raw.Kind.V == Transparent || raw.Kind.V == DNS) && raw.Tools.present {
			c.errorf(raw.Tools.at, "found tools on a %s listener, expected tool: nothing there names one of several", string(raw.Kind.V))
		}
		if ap, ok := c.listenAddress(bound, raw.Address); ok && !ap.Addr().IsLoopback() && raw.Kind.V != Gateway {
			c.warnf(raw.Address.at, "the address %s is not a loopback address, tools of other pods could reach this listener", raw.Address.V)
		}
		l := Listener{
			Name: string(raw.Name.V), Kind: string(raw.Kind.V), Address: raw.Address.V, Tool: string(raw.Tool.V),
			Tools: plain(raw.Tools.V), TokenFile: c.secretFile(raw.TokenFile),
		}
		c.gatewayListener(f.at, raw, &l)
		out = append(out, l)
		c.listenerTools(f.at, raw)
	}
	if f := c.raw.Admin; f.present {
		c.listenAddress(bound, f.V.Address)
	}
	if port := c.raw.Fence.V.ProbePort; c.fence().Rules == FenceNetinit {
		for i, other := range bound.have {
			if int(other.Port()) == port.V {
				c.errorf(bound.at[i], "found address %s, expected another port than fence.probePort, %d", other, port.V)
			}
		}
	}
	return out
}

// fence is whose rules are expected: those of netinit where connections are captured, if nobody says otherwise.
func (c *sidecar) fence() Fence {
	raw := &c.raw.Fence.V
	f := Fence{Rules: string(raw.Rules.V), ProbePort: uint16(raw.ProbePort.V)}
	for _, l := range c.raw.Listeners.V {
		if f.Rules == "" && l.V.Kind.V == Transparent {
			f.Rules = FenceNetinit
		}
	}
	return f
}

func (c *sidecar) listenerTools(at mark, raw *rawListener) {
	switch {
	case raw.Tool.present && raw.Tools.present:
		c.errorf(raw.Tools.at, "found tools beside tool, expected one of the two")
	case !raw.Tool.present && !raw.Tools.present:
		c.errorf(at, "found a listener without a tool, expected tool or tools")
	}
	c.tool(raw.Tool)
	for _, t := range raw.Tools.V {
		c.tool(t)
	}
}

// addresses are those that this config listens on, to find two that collide.
type addresses struct {
	at   []mark
	have []netip.AddrPort
}

// listenAddress checks "IP:port". A name is refused: which addresses it means is decided elsewhere, and may change.
func (c *sidecar) listenAddress(bound *addresses, f field[string]) (netip.AddrPort, bool) {
	if !f.ok {
		return netip.AddrPort{}, false
	}
	ap, err := netip.ParseAddrPort(f.V)
	if err != nil || ap.Addr().Zone() != "" || ap.Addr().Is4In6() {
		c.errorf(f.at, "found string %s, expected an IP address and a port such as 127.0.0.1:15001", quote(f.V))
		return netip.AddrPort{}, false
	}
	for i, other := range bound.have {
		if ap.Port() != 0 && other.Port() == ap.Port() && (overlaps(other.Addr(), ap.Addr()) || overlaps(ap.Addr(), other.Addr())) {
			c.errorf(f.at, "found address %s, expected a free one: %s is taken at %d:%d", f.V, other, bound.at[i].line, bound.at[i].col)
			break
		}
	}
	bound.at, bound.have = append(bound.at, f.at), append(bound.have, ap)
	return ap, true
}

// overlaps reports whether listening on a takes b. The unspecified IPv6 address stands for IPv4 as well.
func overlaps(a, b netip.Addr) bool {
	return a == b || a.IsUnspecified() && (a.Is6() || b.Is4())
}
