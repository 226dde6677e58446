package config

import (
	"strings"

	"github.com/toolgate/toolgate/broker"
)

type vaultSubject string

func (vaultSubject) values() []string { return []string{"workload", "caller"} }

// vault checks which secret is read, and by whose token.
func (c *sidecar) vault(f field[rawVault]) *broker.Vault {
	raw, auth, secret := &f.V, &f.V.Auth.V, &f.V.Secret.V
	c.endpoint(raw.Address, true)
	if strings.HasSuffix(strings.TrimSuffix(raw.Address.V, "/"), "/v1") {
		c.errorf(raw.Address.at, "found address %s, expected it without /v1", quote(raw.Address.V))
	}
	if strings.HasPrefix(auth.Path.V, "auth/") {
		c.errorf(auth.Path.at, "found path %s, expected where the method is mounted, without auth/", quote(auth.Path.V))
	}
	if _, kv, ok := strings.Cut(secret.Path.V, "/data/"); ok {
		c.warnf(secret.Path.at, "path %s has /data/ in it: for a secret of KV version 2 say mount, and path %s", quote(secret.Path.V), quote(kv))
	}
	c.slot(raw.Header, raw.Prefix, raw.Query, secret.PasswordField.present)
	ca, _ := c.roots(raw.CAFile)
	out := &broker.Vault{
		Address: raw.Address.V, Namespace: raw.Namespace.V, AuthPath: auth.Path.V, Role: auth.Role.V, Caller: auth.Subject.V == "caller",
		Mount: secret.Mount.V, Path: secret.Path.V, Field: secret.Field.V, UserField: secret.UserField.V, Username: secret.Username.V,
		PasswordField: secret.PasswordField.V, Header: string(raw.Header.V), Prefix: raw.Prefix.V, Query: string(raw.Query.V),
		CAFile: ca, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
	switch file := c.secretFile(auth.TokenFile); {
	case out.Caller && auth.TokenFile.V != "":
		c.errorf(auth.TokenFile.at, "found tokenFile, expected none: the login is made with the caller's token")
	case out.Caller:
	case file != "":
		out.TokenFile = file
	default:
		if out.TokenFile = c.resolve(c.raw.Identity.V.WorkloadTokenFile); out.TokenFile == "" && raw.Auth.ok && auth.TokenFile.V == "" {
			c.errorf(raw.Auth.at, "found no token for the login, expected tokenFile, identity.workloadTokenFile, or subject: caller")
		}
	}
	return out
}
