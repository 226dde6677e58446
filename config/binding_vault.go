package config

import "github.com/toolgate/toolgate/broker"

type vaultSubject string

func (vaultSubject) values() []string { return []string{"workload", "caller"} }

// vault checks which secret is read, and by whose token.
func (c *sidecar) vault(f field[rawVault]) *broker.Vault {
	raw, auth, secret := &f.V, &f.V.Auth.V, &f.V.Secret.V
	c.endpoint(raw.Address, true)
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
