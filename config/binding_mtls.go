package config

import "github.com/toolgate/toolgate/broker"

type rawMTLS struct {
	CertFile field[string] `key:"certFile" is:"required" doc:"PEM file with the client certificate, leaf first, such as an X.509-SVID; re-read when it changes."`
	KeyFile  field[string] `key:"keyFile" is:"required" doc:"PEM file with its key; re-read when it changes."`
}

// mtls checks the client certificate of a binding's connections.
func (c *sidecar) mtls(f field[rawMTLS]) *broker.MTLS {
	if !f.present || f.V.CertFile.at.line == 0 {
		return nil // missing, or not a mapping
	}
	cert, key := c.keyPair(f.V.CertFile, f.V.KeyFile)
	return &broker.MTLS{CertFile: cert, KeyFile: key}
}
