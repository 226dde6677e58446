package config

import "github.com/toolgate/toolgate/killswitch/ledger"

// audit checks where records go and what signs them.
func (c *sidecar) audit() Audit {
	raw := &c.raw.Audit.V
	check, rotate := &raw.Checkpoint.V, &raw.Rotate.V
	a := Audit{
		Output: raw.Output.V, Chain: raw.Chain.V, SigningKeyFile: c.signingKey(raw.SigningKey),
		Records: check.Records.V, Interval: check.Interval.V, MaxBytes: int64(rotate.MaxBytes.V), Keep: rotate.Keep.V,
	}
	a.Capture = c.capture(raw.Capture)
	file := a.Output != "stdout" && a.Output != "stderr"
	if file {
		a.Output = c.resolve(raw.Output)
	}
	switch {
	case raw.SigningKey.V != "" && !a.Chain:
		c.errorf(raw.SigningKey.at, "found a signing key beside chain: false, expected a chain for it to sign")
	case raw.SigningKey.V == "" && raw.Checkpoint.present:
		c.errorf(raw.Checkpoint.at, "found checkpoint without signingKeyFile, expected a key that signs")
	}
	if raw.Rotate.present && (!file || !rotate.MaxBytes.present) {
		c.errorf(raw.Rotate.at, "found rotate, expected maxBytes in it and a file as output")
	}
	a.OTLP = c.auditOTLP(&raw.OTLP.V)
	return a
}

// auditOTLP checks where a copy of the lines goes.
func (c *sidecar) auditOTLP(raw *rawAuditOTLP) AuditOTLP {
	out := AuditOTLP{
		Endpoint: raw.Endpoint.V, Protocol: string(raw.Protocol.V), HeadersFile: c.collectorHeaders(raw.HeadersFile), SpoolBytes: raw.SpoolBytes.V,
	}
	out.CAFile, _ = c.roots(raw.CAFile)
	if out.Endpoint == "" {
		if c.raw.Audit.V.OTLP.present && !raw.Endpoint.present {
			c.warnf(c.raw.Audit.V.OTLP.at, "audit.otlp.endpoint is missing, no copy is sent")
		}
		return AuditOTLP{}
	}
	c.collector("audit.otlp", raw.Endpoint, raw.Protocol.V, raw.HeadersFile.V != "")
	return out
}

// capture checks which calls are captured.
func (c *sidecar) capture(f field[rawCapture]) Capture {
	if !f.present {
		return Capture{}
	}
	raw := &f.V
	out := Capture{
		Dir: c.resolve(raw.Dir), MaxBodyBytes: raw.MaxBodyBytes.V, MaxEntries: raw.MaxEntries.V, MaxFileBytes: int64(raw.MaxFileBytes.V),
	}
	for _, t := range raw.Tools.V {
		if m := c.tool(t); m != nil {
			out.Tools = append(out.Tools, m.tool.Name)
		}
	}
	return out
}

// signingKey reads the key that signs checkpoints, so that a mistake in it is found before the start.
func (c *sidecar) signingKey(f field[string]) string {
	abs := c.keyFile(f)
	if abs == "" {
		return ""
	}
	if text, err := c.open(abs); err == nil {
		if _, err := ledger.ParseSigner(text); err != nil {
			c.errorf(f.at, "found %s, expected an Ed25519 private key as PKCS #8 PEM: %v", quote(f.V), err)
		}
	}
	return abs
}
