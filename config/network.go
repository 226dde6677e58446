package config

import (
	"crypto/tls"
	"net/netip"
	"time"

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

// intercept checks the CA under which leaves are minted.
func (c *sidecar) intercept() Intercept {
	raw := &c.raw.Intercept.V
	out := Intercept{CAOutFile: c.resolve(raw.CAOutFile), Targets: valid(raw.Targets.V)}
	cert, key := raw.CACertFile, raw.CAKeyFile
	out.CACertFile, out.CAKeyFile = c.resolve(cert), c.resolve(key)
	switch {
	case cert.V == "" && key.V == "":
		if out.CAOutFile == "" && len(c.raw.Broker.V.Bindings.V)+len(out.Targets) > 0 {
			c.warnf(raw.CAOutFile.at, "intercept.caOutFile is missing, no tool can trust the CA that is made at start")
		}
		return out
	case cert.V == "":
		c.errorf(key.at, "found caKeyFile without caCertFile, expected both or neither")
		return out
	case key.V == "":
		c.errorf(cert.at, "found caCertFile without caKeyFile, expected both or neither")
		return out
	}
	if out.CACertFile == "" || out.CAKeyFile == "" {
		return out // a relative name where there is no folder
	}
	if out.CAOutFile == out.CAKeyFile {
		c.errorf(raw.CAOutFile.at, "found caOutFile on the file of the CA's key, expected another")
	}
	certPEM, err := c.open(out.CACertFile)
	if err != nil {
		c.errorf(cert.at, "found %s, expected a readable file: %v", quote(cert.V), err)
	}
	keyPEM, keyErr := c.open(out.CAKeyFile)
	if keyErr != nil {
		c.errorf(key.at, "found %s, expected a readable file: %v", quote(key.V), keyErr)
	}
	if err == nil && keyErr == nil {
		c.caPair(cert, key, certPEM, keyPEM)
	}
	return out
}

// caPair checks that certificate and key belong together and may sign. The error of a bad key may quote its file, so it is
// not repeated.
func (c *sidecar) caPair(cert, key field[string], certPEM, keyPEM []byte) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		c.errorf(key.at, "found a key or certificate that cannot be used, expected the PEM key that matches the certificate of %s", quote(cert.V))
		return
	}
	switch {
	case !pair.Leaf.BasicConstraintsValid || !pair.Leaf.IsCA:
		c.errorf(cert.at, "found a certificate that is not a CA's, expected one with basicConstraints CA:TRUE")
	case time.Now().After(pair.Leaf.NotAfter):
		c.errorf(cert.at, "found a certificate that expired on %s, expected a valid one", pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
}
