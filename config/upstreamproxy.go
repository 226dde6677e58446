package config

import (
	"net/netip"
	"strings"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/egress"
)

// upstreamProxy checks the proxy by which every upstream is reached. The zero value is none, or a mistake. A text with user info is
// not quoted: it may hold a password.
func (c *sidecar) upstreamProxy(f, credentials field[string]) UpstreamProxy {
	file := c.proxyCredentials(credentials)
	if f.V == "" {
		if (f.ok || !f.present) && credentials.V != "" {
			c.errorf(credentials.at, "found credentials without egress.upstreamProxy, expected both or none")
		}
		return UpstreamProxy{}
	}
	const wanted = "a URL with a port and without path such as http://proxy.corp.example:3128"
	authority, plain := strings.CutPrefix(f.V, "http://")
	switch {
	case strings.Contains(f.V, "@"):
		c.errorf(f.at, "found a URL with user info, expected one without; egress.upstreamProxyCredentialsFile is for it")
		return UpstreamProxy{}
	case strings.HasPrefix(f.V, "https://"):
		c.errorf(f.at, "found string %s, expected an http URL: TLS to the upstream proxy is not available in this version", quote(f.V))
		return UpstreamProxy{}
	case !plain:
		c.errorf(f.at, "found string %s, expected %s", quote(f.V), wanted)
		return UpstreamProxy{}
	}
	host, port, err := egress.ParseAuthority(authority, 0)
	if err != nil {
		c.errorf(f.at, "found string %s, expected %s: %v", quote(f.V), wanted, err)
		return UpstreamProxy{}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		own := egress.Addresses{Own: c.ownAddresses()}
		if own.JudgeProxy(netip.AddrPortFrom(addr, port)) != nil {
			c.errorf(f.at, "found string %s, where this sidecar listens, expected another proxy", quote(f.V))
		}
	}
	return UpstreamProxy{Host: host, Port: port, CredentialsFile: file}
}

func (c *sidecar) proxyCredentials(f field[string]) string {
	abs := c.secretFile(f)
	if abs == "" || readableFile(abs) != nil {
		return abs
	}
	if _, err := broker.OpenBasicFile(abs); err != nil {
		c.errorf(f.at, "found %s, expected a file with one line, a user and a password with a colon between: %v", quote(f.V), err)
	}
	return abs
}

// ownAddresses are those of the listeners and of the admin port, as far as they are addresses.
func (c *sidecar) ownAddresses() []netip.AddrPort {
	texts := []string{c.raw.Admin.V.Address.V}
	for _, l := range c.raw.Listeners.V {
		texts = append(texts, l.V.Address.V)
	}
	var own []netip.AddrPort
	for _, text := range texts {
		if ap, err := netip.ParseAddrPort(text); err == nil && ap.Port() != 0 {
			own = append(own, ap)
		}
	}
	return own
}
