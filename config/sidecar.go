package config

import (
	"slices"
	"time"

	"github.com/toolgate/toolgate/egress"
)

// sidecar checks a decoded config and builds its Snapshot.
type sidecar struct {
	*loader
	bundle   bundle
	raw      *rawConfig
	tools    map[string]*manifest
	unnamed  bool     // a manifest's name could not be read, so an unknown tool may be that one
	patterns []string // manifest globs, absolute
}

// snapshot runs every check, whatever the ones before found, so that all mistakes come at once.
func (c *sidecar) snapshot() *Snapshot {
	raw := c.raw
	if raw.Mode.V == rawMode(Report) {
		c.warnf(raw.Mode.at, "mode is report: what the egress policy denies is let pass")
	}
	c.loadManifests()
	s := &Snapshot{
		Mode:       Mode(raw.Mode.V),
		Listeners:  c.listeners(),
		Fence:      c.fence(),
		Gateway:    c.gatewayPeers(),
		Admin:      raw.Admin.V.Address.V,
		Tools:      map[string]*Tool{},
		Identity:   c.identity(),
		Bindings:   c.bindings(),
		Egress:     c.egress(),
		Intercept:  c.intercept(),
		InTunnel:   raw.Denials.V.InTunnel.V,
		KillSwitch: c.killSwitch(),
		Audit:      c.audit(),
		Tracing:    c.tracing(),
		Log:        Log{Level: string(raw.Log.V.Level.V), Format: string(raw.Log.V.Format.V), Payloads: raw.Log.V.Payloads.V},
		Limits:     limits(&raw.Limits.V),
	}
	for name, m := range c.tools {
		s.Tools[name] = m.tool
	}
	s.Files = slices.Clone(c.files)
	for _, p := range c.patterns {
		if !slices.Contains(s.Files, p) {
			s.Files = append(s.Files, p)
		}
	}
	s.Revision = c.revision()
	s.Defaults, s.Notes = sorted(c.warnings), sorted(c.notes)
	return s
}

func limits(raw *rawLimits) Limits {
	return Limits{
		MaxConnections: raw.MaxConnections.V, MaxTunnelsPerTool: raw.TunnelsPerTool.V,
		MaxTunnelsPerTenant: raw.TenantTunnels.V, MaxRequestsPerTenant: raw.TenantRequests.V,
		MaxTunnels: raw.MaxTunnels.V, MaxHeaderBytes: raw.MaxHeaderBytes.V, HeaderTimeout: raw.HeaderTimeout.V,
		DialTimeout: raw.DialTimeout.V, IdleTimeout: raw.IdleTimeout.V, Drain: raw.Drain.V,
	}
}

// loadManifests reads every manifest that the patterns match, and registers it even if it has mistakes, so that what
// names its tool is not reported as well.
func (c *sidecar) loadManifests() {
	if c.bundle.together {
		c.bundledManifests()
		return
	}
	seen := map[string]bool{}
	c.unnamed = !c.raw.Manifests.ok
	for _, f := range c.raw.Manifests.V {
		if !f.ok {
			c.unnamed = true
			continue
		}
		files, pattern, err := c.glob(f.V)
		if err != nil {
			c.errorf(f.at, "found %s, expected a file name or a pattern such as manifests/*.yaml", quote(f.V))
			c.unnamed = true
			continue
		}
		c.patterns = append(c.patterns, pattern)
		if len(files) == 0 {
			c.errorf(f.at, "found %s, which matches no file, expected at least one manifest", quote(f.V))
			c.unnamed = true
		}
		for _, file := range files {
			if !seen[file] {
				seen[file] = true
				c.register(c.loader.manifest(c.display(file), nil))
			}
		}
	}
}

// bundledManifests reads the manifests that stand behind the config.
func (c *sidecar) bundledManifests() {
	if f := c.raw.Manifests; f.present {
		c.errorf(f.at, "found manifests, expected none: the manifests are the documents behind this one")
	}
	if len(c.bundle.manifests) == 0 {
		c.errorf(c.bundle.config.at, "found no manifest behind the config, expected one for each tool as a further document, after a line ---")
		c.unnamed = true
	}
	for _, doc := range c.bundle.manifests {
		c.register(c.loader.manifest(doc.at.file, &doc))
	}
}

func (c *sidecar) register(m *manifest) {
	if m == nil || !m.raw.Name.ok {
		c.unnamed = true
		return
	}
	if first, twice := c.tools[m.tool.Name]; twice {
		c.errorf(m.raw.Name.at, "found tool %s a second time, expected one manifest per tool; the first is at %s",
			quote(m.tool.Name), first.raw.Name.at)
		return
	}
	c.tools[m.tool.Name] = m
}

// tool finds the manifest of a tool that the config names; nil after a mistake.
func (c *sidecar) tool(f field[name]) *manifest {
	if !f.ok {
		return nil
	}
	m := c.tools[string(f.V)]
	if m == nil && !c.unnamed {
		known := make([]string, 0, len(c.tools))
		for name := range c.tools {
			known = append(known, name)
		}
		slices.Sort(known)
		c.errorf(f.at, "found tool %s, which no manifest describes, expected %s", quote(string(f.V)), oneOf(known, string(f.V)))
	}
	return m
}

// secretFile checks that a file exists and can be read, without reading it, and returns its absolute name.
func (l *loader) secretFile(f field[string]) string {
	if !f.ok || f.V == "" {
		return ""
	}
	abs := l.resolve(f)
	if err := readableFile(abs); abs != "" && err != nil {
		l.errorf(f.at, "found %s, expected a readable file: %v", quote(f.V), err)
	}
	return abs
}

// keyFile reads a private key's file, so that its rotation is a change of the config, and returns its absolute name.
func (c *sidecar) keyFile(f field[string]) string {
	if !f.ok || f.V == "" {
		return ""
	}
	abs := c.resolve(f)
	if abs == "" {
		return ""
	}
	if _, err := c.open(abs); err != nil {
		c.errorf(f.at, "found %s, expected a readable file: %v", quote(f.V), err)
	}
	return abs
}

// decideTunnel reports whether a tool's policy allows a tunnel to host and port.
func decideTunnel(t *Tool, host string, port uint16) bool {
	return t.Policy.Decide(egress.Target{Host: host, Port: port}).Verdict == egress.Allow
}

const clientTimeout = 10 * time.Second
