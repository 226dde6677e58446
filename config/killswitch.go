package config

import (
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
	ca, _ := c.roots(raw.CAFile)
	n := NATS{Keys: c.publicKeys(raw.PublicKey), CredentialsFile: c.secretFile(raw.CredentialsFile), CAFile: ca}
	if len(raw.Servers.V) == 0 {
		for _, f := range []struct {
			key   string
			given bool
			at    mark
		}{
			{"publicKey", len(n.Keys) > 0, raw.PublicKey.at},
			{"credentialsFile", raw.CredentialsFile.V != "", raw.CredentialsFile.at},
			{"caFile", raw.CAFile.V != "", raw.CAFile.at},
		} {
			if f.given && (raw.Servers.ok || !raw.Servers.present) {
				c.errorf(f.at, "found %s without killSwitch.nats.servers, expected both or neither", f.key)
			}
		}
		return n
	}
	if len(raw.PublicKey.V) == 0 && (raw.PublicKey.ok || !raw.PublicKey.present) {
		c.errorf(raw.Servers.at, "found NATS servers without killSwitch.nats.publicKey, expected the control plane's key: what comes over NATS is believed by its signature alone")
	}
	web := 0
	for _, f := range raw.Servers.V {
		if !f.ok {
			continue
		}
		scheme := c.natsServer(f, ca != "")
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
