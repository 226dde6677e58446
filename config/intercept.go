package config

import (
	"crypto/tls"
	"time"

	"github.com/toolgate/toolgate/roots"
)

// intercept checks the CA under which leaves are minted.
func (c *sidecar) intercept() Intercept {
	raw := &c.raw.Intercept.V
	out := Intercept{
		CAStateDir: c.resolve(raw.CAStateDir),
		CAOutFile:  c.resolve(raw.CAOutFile), BundleOutFile: c.resolve(raw.BundleOutFile), TrustStoreFile: c.resolve(raw.TrustStoreFile),
		ExtraCAs: c.extraCAs(raw), Targets: valid(raw.Targets.V),
	}
	c.outFiles(raw)
	cert, key := raw.CACertFile, raw.CAKeyFile
	out.CACertFile, out.CAKeyFile = c.resolve(cert), c.resolve(key)
	if dir := raw.CAStateDir; dir.V != "" && cert.V+key.V != "" {
		c.errorf(dir.at, "found caStateDir beside caCertFile and caKeyFile, expected either: a CA that is given is not kept")
	}
	switch {
	case cert.V == "" && key.V == "":
		if out.CAOutFile == "" && out.BundleOutFile == "" && out.TrustStoreFile == "" && len(c.raw.Broker.V.Bindings.V)+len(out.Targets) > 0 {
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

// outFiles refuses to write two things, or over a thing that is read, at one place.
func (c *sidecar) outFiles(raw *rawIntercept) {
	taken := map[string]string{}
	for key, f := range map[string]field[string]{"caCertFile": raw.CACertFile, "caKeyFile": raw.CAKeyFile} {
		taken[c.path(f.V)] = key
	}
	for _, f := range raw.ExtraCAFiles.V {
		taken[c.path(f.V)] = "extraCAFiles"
	}
	for _, o := range []struct {
		key string
		f   field[string]
	}{{"caOutFile", raw.CAOutFile}, {"bundleOutFile", raw.BundleOutFile}, {"trustStoreFile", raw.TrustStoreFile}} {
		if o.f.V == "" {
			continue
		}
		if other, twice := taken[c.path(o.f.V)]; twice {
			c.errorf(o.f.at, "found %s on the file of %s, expected another", o.key, other)
		}
		taken[c.path(o.f.V)] = o.key
	}
}

// extraCAs reads the certificates of every file, and those that stand in the config.
func (c *sidecar) extraCAs(raw *rawIntercept) [][]byte {
	var all [][]byte
	for _, f := range raw.ExtraCAFiles.V {
		abs := c.resolve(f)
		if !f.ok || abs == "" {
			continue
		}
		b, err := c.open(abs)
		if err != nil {
			c.errorf(f.at, "found %s, expected a readable file: %v", quote(f.V), err)
			continue
		}
		certs, err := roots.Parse(b)
		if err != nil {
			c.errorf(f.at, "found %s, expected a PEM file of certificates: %v", quote(f.V), err)
		}
		all = append(all, certs...)
	}
	if f := raw.ExtraCAs; f.ok && f.V != "" {
		certs, err := roots.Parse([]byte(f.V))
		if err != nil {
			c.errorf(f.at, "found a text that cannot be used, expected certificates in PEM: %v", err)
		}
		all = append(all, certs...)
	}
	return roots.Join(all)
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
