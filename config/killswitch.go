package config

import (
	"crypto/x509"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// killSwitch checks where revocations come from.
func (c *sidecar) killSwitch() KillSwitch {
	raw := &c.raw.KillSwitch.V
	k := KillSwitch{File: c.resolve(raw.File), NATS: c.nats(&raw.NATS.V), MaxStale: raw.MaxStale.V, StateDir: c.resolve(raw.StateDir), StaleRisks: c.staleRisks(raw.Risks)}
	control := len(raw.NATS.V.Servers.V) > 0
	switch {
	case k.File == "" && !control:
		c.warnf(raw.File.at, "killSwitch.file and killSwitch.nats are missing, no revocation can reach this sidecar")
	case k.File != "" && readableFile(k.File) != nil:
		c.warnf(raw.File.at, "the revocations file %s cannot be read now; tools of high and critical risk are denied until it can", quote(raw.File.V))
	}
	if control && k.StateDir == "" {
		c.warnf(raw.NATS.V.Servers.at, "killSwitch.stateDir is missing: after a restart no revocation is known until the control plane is reached")
	}
	return k
}

// staleRisks refuses a list that would let risky tools go on with what nobody has confirmed.
func (c *sidecar) staleRisks(f field[[]field[risk]]) []string {
	risks := plain(f.V)
	for _, must := range []string{"high", "critical"} {
		if f.ok && f.present && !slices.Contains(risks, must) {
			c.errorf(f.at, "found killSwitch.staleRisks without %s, expected high and critical in it: their tools never go on unconfirmed", must)
		}
	}
	return risks
}

// nats checks the bus to the control plane.
func (c *sidecar) nats(raw *rawNATS) NATS {
	n := NATS{
		Keys: c.keys(raw), CredentialsFile: c.secretFile(raw.CredentialsFile), CredentialsURL: raw.CredentialsURL.V,
		TokenFile: c.resolve(raw.TokenFile), CA: raw.CA.V,
	}
	n.CAFile, _ = c.roots(raw.CAFile)
	c.natsCredentials(raw)
	c.natsCA(raw)
	if len(raw.Servers.V) == 0 {
		for _, f := range []struct {
			key   string
			given bool
			at    mark
		}{
			{"publicKey", len(raw.PublicKey.V) > 0, raw.PublicKey.at},
			{"publicKeyFile", raw.PublicKeyFile.V != "", raw.PublicKeyFile.at},
			{"credentialsFile", raw.CredentialsFile.V != "", raw.CredentialsFile.at},
			{"credentialsURL", raw.CredentialsURL.V != "", raw.CredentialsURL.at},
			{"tokenFile", raw.TokenFile.V != "", raw.TokenFile.at},
			{"caFile", raw.CAFile.V != "", raw.CAFile.at},
			{"ca", raw.CA.V != "", raw.CA.at},
		} {
			if f.given && (raw.Servers.ok || !raw.Servers.present) {
				c.errorf(f.at, "found %s without killSwitch.nats.servers, expected both or neither", f.key)
			}
		}
		return n
	}
	if len(raw.PublicKey.V) == 0 && raw.PublicKeyFile.V == "" && (raw.PublicKey.ok || !raw.PublicKey.present) && (raw.PublicKeyFile.ok || !raw.PublicKeyFile.present) {
		c.errorf(raw.Servers.at, "found NATS servers without killSwitch.nats.publicKey or publicKeyFile, expected the control plane's key: what comes over NATS is believed by its signature alone")
	}
	web := 0
	for _, f := range raw.Servers.V {
		if !f.ok {
			continue
		}
		scheme := c.natsServer(f, raw.CAFile.V != "" || raw.CA.V != "")
		if scheme == "ws" || scheme == "wss" {
			web++
		}
		n.Servers = append(n.Servers, f.V)
	}
	if web > 0 && web < len(n.Servers) {
		c.errorf(raw.Servers.at, "found URLs of WebSocket and other servers together, expected one kind")
	}
	return n
}

// natsCredentials checks that there is one way to credentials. That the token's file is there yet is not asked for: a sidecar
// starts without it, and holds tools of high risk.
func (c *sidecar) natsCredentials(raw *rawNATS) {
	c.endpoint(raw.CredentialsURL, false)
	switch {
	case raw.CredentialsFile.V != "" && raw.CredentialsURL.V != "":
		c.errorf(raw.CredentialsURL.at, "found credentialsURL beside credentialsFile, expected one of them")
	case raw.CredentialsURL.V != "" && raw.TokenFile.V == "":
		c.errorf(raw.CredentialsURL.at, "found credentialsURL without tokenFile, expected both: the token says who asks")
	case raw.CredentialsURL.V == "" && raw.TokenFile.V != "" && (raw.CredentialsURL.ok || !raw.CredentialsURL.present):
		c.errorf(raw.TokenFile.at, "found tokenFile without credentialsURL, expected both")
	}
}

func (c *sidecar) natsCA(raw *rawNATS) {
	switch {
	case raw.CA.V == "":
	case raw.CAFile.V != "":
		c.errorf(raw.CA.at, "found ca beside caFile, expected one of them")
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(raw.CA.V)):
		c.errorf(raw.CA.at, "found ca without a certificate in it, expected PEM text")
	}
}

// natsServer checks one URL and returns its scheme. A URL with user info is not quoted: it may hold a password.
func (c *sidecar) natsServer(f field[string], ca bool) string {
	if strings.Contains(f.V, "@") {
		c.errorf(f.at, "found a URL with user info, expected one without; killSwitch.nats.credentialsFile is for it")
		return ""
	}
	u, err := url.Parse(f.V)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(f.V, ",") {
		c.errorf(f.at, "found string %s, expected a URL such as tls://nats.example:4222 (tls, nats, wss or ws; no path)", quote(f.V))
		return ""
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	if (u.Scheme == "nats" || u.Scheme == "ws") && !ca && !addr.IsLoopback() && u.Hostname() != "localhost" {
		c.warnf(f.at, "%s is not encrypted and its server not verified: whoever is on the way sees what is revoked and may hold it back; use tls, wss or caFile", quote(f.V))
	}
	return u.Scheme
}

// keys are the control plane's, from the config or a file that it names.
func (c *sidecar) keys(raw *rawNATS) ledger.Keys {
	f := raw.PublicKeyFile
	if f.V == "" {
		return c.publicKeys(raw.PublicKey)
	}
	if len(raw.PublicKey.V) > 0 {
		c.errorf(f.at, "found publicKeyFile beside publicKey, expected one of them")
	}
	abs := c.resolve(f)
	if !f.ok || abs == "" {
		return nil
	}
	text, err := c.open(abs)
	if err != nil {
		c.errorf(f.at, "found %s, expected a readable file: %v", quote(f.V), err)
		return nil
	}
	keys, err := ledger.ParseKeys(strings.Fields(string(text))...)
	if err != nil || len(keys) == 0 {
		c.errorf(f.at, "found %s, expected a file with public keys, one a line: \"ed25519:\" and 43 characters of base64url", quote(f.V))
		return nil
	}
	return keys
}

func (c *sidecar) publicKeys(f field[names]) ledger.Keys {
	var all ledger.Keys
	for _, k := range f.V {
		if !k.ok {
			continue
		}
		keys, err := ledger.ParseKeys(k.V)
		if err != nil {
			c.errorf(k.at, "found string %s, expected a public key: \"ed25519:\" and 43 characters of base64url", quote(k.V))
			continue
		}
		if all == nil {
			all = ledger.Keys{}
		}
		maps.Copy(all, keys)
	}
	return all
}
