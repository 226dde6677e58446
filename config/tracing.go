package config

import (
	"net/netip"
	"net/url"
	"os"

	"github.com/toolgate/toolgate/tracing/otlp"
)

// otlpProtocol is how the collector is spoken to.
type otlpProtocol string

func (otlpProtocol) values() []string { return []string{otlp.HTTP, otlp.GRPC} }

// tracing checks where the traces of calls go.
func (c *sidecar) tracing() Tracing {
	raw := &c.raw.Tracing.V
	out := Tracing{
		Endpoint: raw.Endpoint.V, Protocol: string(raw.Protocol.V), SampleRatio: raw.SampleRatio.V, MaxPerSecond: raw.MaxPerSecond.V,
		HeadersFile: c.collectorHeaders(raw.HeadersFile), Propagate: valid(raw.Propagate.V),
	}
	out.CAFile, _ = c.roots(raw.CAFile)
	if out.Endpoint == "" {
		if c.raw.Tracing.present && !raw.Endpoint.present {
			c.warnf(c.raw.Tracing.at, "tracing.endpoint is missing, nothing is traced")
		}
		return Tracing{}
	}
	c.collector("tracing", raw.Endpoint, raw.Protocol.V, raw.HeadersFile.V != "")
	return out
}

// otherPort is the usual port of the protocol that is not the one.
var otherPort = map[otlpProtocol]string{otlp.HTTP: "4317", otlp.GRPC: "4318"}

// collector checks the endpoint of the section of that name. Spans and records hold no secret, so http is enough for a collector in a
// trusted network; a headers file is one.
func (c *sidecar) collector(section string, f field[string], protocol otlpProtocol, headers bool) {
	u, err := url.Parse(f.V)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		c.errorf(f.at, "found %s, expected a URL such as https://collector.example:4318", quote(f.V))
		return
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	clear := u.Scheme == "http" && !addr.IsLoopback()
	switch {
	case u.User != nil:
		c.errorf(f.at, "found a URL with user info, expected one without; %s.headersFile is for it", section)
	case u.Fragment != "" || u.RawFragment != "" || u.RawQuery != "" || u.ForceQuery:
		c.errorf(f.at, "found URL %s, expected one without query and fragment", quote(f.V))
	case protocol == otlpProtocol(otlp.GRPC) && u.Path != "" && u.Path != "/":
		c.errorf(f.at, "found URL %s, expected one without a path, which gRPC has no use for", quote(f.V))
	case clear && headers:
		c.errorf(f.at, "found URL %s, expected https: %s.headersFile is sent over TLS only, or to a loopback address", quote(f.V), section)
	case clear:
		c.warnf(f.at, "%s.endpoint is http: whoever is on the way reads which callers use which tools", section)
	}
	if port := u.Port(); port != "" && port == otherPort[protocol] {
		c.warnf(f.at, "%s.endpoint has port %s, where collectors mostly do not speak %s", section, port, string(protocol))
	}
}

// collectorHeaders checks the form of a headers file and quotes nothing of it.
func (c *sidecar) collectorHeaders(f field[string]) string {
	abs := c.secretFile(f)
	if abs == "" {
		return ""
	}
	text, err := os.ReadFile(abs)
	if err != nil {
		return abs // reported already
	}
	if _, err := otlp.ParseHeaders(text); err != nil {
		c.errorf(f.at, "found %s, expected a file of lines name: value: %v", quote(f.V), err)
	}
	return abs
}
