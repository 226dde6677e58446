package config

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"slices"

	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
)

// gatewayListener checks what a listener of kind gateway must have, and others must not.
func (c *sidecar) gatewayListener(at mark, raw *rawListener, l *Listener) {
	if raw.Kind.V != Gateway {
		if raw.TLS.present {
			c.errorf(raw.TLS.at, "found tls on a listener that is no gateway, expected none")
		}
		return
	}
	l.CertFile, l.KeyFile = c.keyPair(raw.TLS.V.CertFile, raw.TLS.V.KeyFile)
	switch {
	case !raw.TLS.present:
		c.errorf(at, "found a gateway without tls, expected it: callers' tokens come this way")
	case raw.Tool.present:
		c.errorf(raw.Tool.at, "found tool on a gateway, expected tools: each tunnel names its own")
	case raw.TokenFile.V != "":
		c.errorf(raw.TokenFile.at, "found tokenFile on a gateway, expected none: each tunnel brings its caller's token")
	case !c.raw.Gateway.present:
		c.errorf(at, "found a gateway without workloads, expected gateway.workloads: nobody may come otherwise")
	}
}

// gatewayPeers checks who may come to the gateways of this config, and that nothing is asked of them that a gateway does not do: it
// relays blind, and the credentials are in the TLS that passes through it.
func (c *sidecar) gatewayPeers() GatewayPeers {
	raw := &c.raw.Gateway
	var gateway, other mark
	for _, l := range c.raw.Listeners.V {
		if l.V.Kind.V == Gateway {
			gateway = l.at
		} else if l.present {
			other = l.at
		}
	}
	if gateway.line == 0 {
		if raw.present {
			c.errorf(raw.at, "found gateway without a listener of kind gateway, expected both or neither")
		}
		return GatewayPeers{}
	}
	c.gatewayAlone(other)
	if !raw.present {
		return GatewayPeers{}
	}
	return c.peers(&raw.V)
}

// gatewayAlone refuses beside a gateway what would make another thing of it.
func (c *sidecar) gatewayAlone(other mark) {
	if other.line != 0 {
		c.errorf(other, "found a listener of another kind beside a gateway, expected a process of its own for either")
	}
	if f := c.raw.Broker.V.Bindings; len(f.V) > 0 {
		c.errorf(f.at, "found bindings beside a gateway, expected none: it relays blind and holds no credential; they are the sidecars'")
	}
	if f := c.raw.Intercept.V.Targets; len(f.V) > 0 {
		c.errorf(f.at, "found intercept.targets beside a gateway, expected none: it relays blind")
	}
	if f := c.raw.Denials.V.InTunnel; f.V {
		c.errorf(f.at, "found denials.inTunnel beside a gateway, expected none: it relays blind, and the sidecar says why")
	}
}

func (c *sidecar) peers(raw *rawGateway) GatewayPeers {
	out := GatewayPeers{}
	_, out.ClientCAs = c.roots(raw.ClientCAFile)
	if f := raw.Tokens; f.present {
		is := c.usableIssuer(f)
		out.Tokens, out.Digest = &is, c.digest([]identity.Issuer{is}, []field[rawIssuer]{f})
		c.ownAudience(f.V.Audiences)
		if in := f.V.Introspection; in.present {
			c.errorf(in.at, "found introspection for workloads' tokens, expected none: they are JWTs")
		}
		if r := f.V.Replay; r.V.mode() != identity.ReplayOff {
			c.errorf(r.at, "found replay for workloads' tokens, expected none: a workload shows its token for each tunnel")
		}
	}
	if raw.ClientCAFile.V == "" && !raw.Tokens.present {
		c.errorf(c.raw.Gateway.at, "found neither clientCAFile nor tokens, expected one of them: no workload can show who it is")
	}
	if len(raw.Workloads.V) == 0 && (raw.Workloads.ok || !raw.Workloads.present) {
		c.errorf(raw.Workloads.at, "found no workload, expected at least one in gateway.workloads")
	}
	for _, f := range raw.Workloads.V {
		for _, t := range f.V.Tools.V {
			if c.tool(t) != nil && !c.served(t.V) {
				c.errorf(t.at, "found tool %s, which no listener of kind gateway serves, expected one that does", quote(string(t.V)))
			}
		}
		out.Workloads = append(out.Workloads, Workload{IDs: valid(f.V.IDs.V), Tools: plain(f.V.Tools.V), Tenants: plain(f.V.Tenants.V)})
	}
	return out
}

// ownAudience refuses an audience that callers' tokens have as well: such a token would be its caller's and its workload's proof at
// once, and whoever had the one would have the other.
func (c *sidecar) ownAudience(f field[[]field[string]]) {
	for _, a := range f.V {
		for _, is := range c.raw.Identity.V.Issuers.V {
			if slices.Contains(plain(is.V.Audiences.V), a.V) {
				c.errorf(a.at, "found audience %s, which callers' tokens have too, expected one for workloads alone", quote(a.V))
				return
			}
		}
	}
}

func (c *sidecar) served(tool name) bool {
	return slices.ContainsFunc(c.raw.Listeners.V, func(l field[rawListener]) bool {
		return l.V.Kind.V == Gateway && slices.Contains(plain(l.V.Tools.V), string(tool))
	})
}

// gatewayWay checks the gateway by which every upstream is reached.
func (c *sidecar) gatewayWay(f field[rawWay]) GatewayWay {
	if !f.present || f.V.Address.at.line == 0 {
		return GatewayWay{}
	}
	raw := &f.V
	out := GatewayWay{ServerName: raw.ServerName.V, TokenFile: c.secretFile(raw.TokenFile)}
	var err error
	if out.Host, out.Port, err = egress.ParseAuthority(raw.Address.V, 0); err != nil && raw.Address.ok {
		c.errorf(raw.Address.at, "found string %s, expected a host and a port such as toolgate-gateway.toolgate.svc.cluster.local:15443: %v",
			quote(raw.Address.V), err)
	}
	if addr, err := netip.ParseAddr(out.Host); err == nil {
		own := egress.Addresses{Own: c.ownAddresses()}
		if own.JudgeProxy(netip.AddrPortFrom(addr, out.Port)) != nil {
			c.errorf(raw.Address.at, "found string %s, where this sidecar listens, expected another", quote(raw.Address.V))
		}
	}
	if out.ServerName == "" {
		out.ServerName = out.Host
	} else if host, err := egress.ParseHost(out.ServerName); err != nil || host != out.ServerName {
		c.errorf(raw.ServerName.at, "found string %s, expected a name in lower case, or an address", quote(out.ServerName))
	}
	out.Roots = c.gatewayRoots(raw)
	c.workloadProof(f.at, raw, &out)
	return out
}

func (c *sidecar) gatewayRoots(raw *rawWay) *x509.CertPool {
	if raw.CA.V == "" {
		_, pool := c.roots(raw.CAFile)
		return pool
	}
	if raw.CAFile.V != "" {
		c.errorf(raw.CA.at, "found ca beside caFile, expected one of the two")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(raw.CA.V)) {
		c.errorf(raw.CA.at, "found a text without a certificate in it, expected PEM certificates")
	}
	return pool
}

// workloadProof checks by what the gateway is shown who comes: a certificate, or a token.
func (c *sidecar) workloadProof(at mark, raw *rawWay, out *GatewayWay) {
	cert, key, token := raw.CertFile.V != "", raw.KeyFile.V != "", raw.TokenFile.V != ""
	switch {
	case cert != key:
		c.errorf(at, "found one of certFile and keyFile, expected both or neither")
	case cert && token:
		c.errorf(raw.TokenFile.at, "found tokenFile beside a certificate, expected one of the two")
	case !cert && !token:
		c.errorf(at, "found a gateway without certFile and keyFile or tokenFile, expected one of them: a gateway lets in nobody else")
	case cert:
		out.CertFile, out.KeyFile = c.keyPair(raw.CertFile, raw.KeyFile)
	}
}

// keyPair checks a certificate and its key. They are not part of the policy's revision, which would differ with each workload and
// each day; they are read again when they change.
func (c *sidecar) keyPair(cert, key field[string]) (certFile, keyFile string) {
	if !cert.ok || !key.ok {
		return "", ""
	}
	before := len(c.mistakes)
	certFile, keyFile = c.secretFile(cert), c.secretFile(key)
	if len(c.mistakes) > before {
		return certFile, keyFile
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil { // which may quote the file
		c.errorf(cert.at, "found a certificate or key that cannot be used, expected PEM files that belong together: %s and %s", quote(cert.V), quote(key.V))
	}
	return certFile, keyFile
}
