package config

import (
	"net/netip"

	"github.com/toolgate/toolgate/egress"
)

// egress checks what holds for every tool.
func (c *sidecar) egress() Egress {
	raw := &c.raw.Egress.V
	out := Egress{Resolver: c.resolver(raw.Resolver)}
	for _, p := range valid(raw.ClusterCIDRs.V) {
		out.Cluster = append(out.Cluster, netip.Prefix(p))
	}
	for _, f := range raw.AllowPrivate.V {
		for _, t := range f.V.Tools.V {
			if m := c.tool(t); m != nil && m.sound && !m.tool.AllowPrivateNetwork {
				c.errorf(t.at, "found tool %s, whose manifest lacks allowPrivateNetwork: true, expected one with it: this lifts nothing",
					quote(string(t.V)))
			}
		}
		e := egress.Exemption{Prefix: netip.Prefix(f.V.Prefix.V), Ports: ports(f.V.Ports.V), Tools: plain(f.V.Tools.V)}
		if f.ok {
			if err := e.Validate(); err != nil {
				c.errorf(f.V.Prefix.at, "found an exemption that cannot be used, expected another: %v", err)
			}
		}
		out.Exempt = append(out.Exempt, e)
	}
	out.AllowECH = raw.AllowECH.V
	out.UpstreamCAFile, _ = c.roots(raw.UpstreamCAFile)
	out.UpstreamProxy = c.upstreamProxy(raw.UpstreamProxy, raw.ProxyCredentials)
	out.Gateway = c.gatewayWay(raw.Gateway)
	if raw.Gateway.present && raw.UpstreamProxy.V != "" {
		c.errorf(raw.UpstreamProxy.at, "found upstreamProxy beside gateway, expected one way out")
	}
	return out
}

// resolver accepts an address with or without a port.
func (c *sidecar) resolver(f field[string]) string {
	if f.V == "" {
		return ""
	}
	if a, err := netip.ParseAddr(f.V); err == nil && a.Zone() == "" {
		return netip.AddrPortFrom(a, 53).String()
	}
	ap, err := netip.ParseAddrPort(f.V)
	if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" {
		c.errorf(f.at, "found string %s, expected the IP address of a DNS server with optional port such as 10.96.0.10:53", quote(f.V))
		return ""
	}
	return ap.String()
}
