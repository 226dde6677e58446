package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/egress"
)

// bindings checks which credential goes where.
func (c *sidecar) bindings() []broker.Binding {
	var out []broker.Binding
	names := map[string]mark{}
	taken := map[[2]string]mark{} // by tool and target
	for _, f := range c.raw.Broker.V.Bindings.V {
		raw := &f.V
		if raw.Name.at.line == 0 {
			continue // not a mapping
		}
		if first, twice := names[string(raw.Name.V)]; twice && raw.Name.ok {
			c.errorf(raw.Name.at, "found binding %s a second time, expected unique names; the first is at %d:%d",
				quote(string(raw.Name.V)), first.line, first.col)
		} else if raw.Name.ok {
			names[string(raw.Name.V)] = raw.Name.at
		}
		before := len(c.mistakes)
		b := broker.Binding{Name: string(raw.Name.V), Tools: plain(raw.Tools.V), Targets: c.targets(raw, taken)}
		c.credential(f, &b)
		if f.ok && len(c.mistakes) == before {
			if _, err := broker.New([]broker.Binding{b}, broker.Options{}); err != nil {
				c.errorf(settingAt(raw, err), "found a setting that cannot be used, expected another: %v", err)
			}
		}
		if required := c.raw.Identity.V.Required; required.ok && !required.V {
			c.warnf(raw.Name.at, "identity.required is false, and binding %s gives no credential to a call without a caller: such calls are refused", quote(b.Name))
		}
		out = append(out, b)
	}
	return out
}

// credential sets the one kind of credential that a binding has.
func (c *sidecar) credential(f field[rawBinding], b *broker.Binding) {
	raw := &f.V
	var first string
	var kinds []string
	for _, k := range []struct {
		name    string
		present bool
		at      mark
		set     func()
	}{
		{"tokenExchange", raw.TokenExchange.present, raw.TokenExchange.at, func() { b.TokenExchange = c.tokenExchange(raw.TokenExchange) }},
		{"clientCredentials", raw.ClientCredentials.present, raw.ClientCredentials.at, func() { b.ClientCredentials = c.clientCredentials(raw.ClientCredentials) }},
		{"static", raw.Static.present, raw.Static.at, func() { b.Static = c.static(raw.Static) }},
		{"placeholders", raw.Placeholders.present, raw.Placeholders.at, func() { b.Placeholders = c.placeholders(raw.Placeholders.V) }},
		{"githubApp", raw.GitHubApp.present, raw.GitHubApp.at, func() { b.GitHubApp = c.gitHubApp(raw.GitHubApp) }},
		{"vault", raw.Vault.present, raw.Vault.at, func() { b.Vault = c.vault(raw.Vault) }},
		{"aws", raw.AWS.present, raw.AWS.at, func() { b.AWS = c.aws(raw.AWS) }},
		{"gcp", raw.GCP.present, raw.GCP.at, func() { b.GCP = c.gcp(raw.GCP) }},
		{"idJAG", raw.IDJAG.present, raw.IDJAG.at, func() { b.IDJAG = c.idJAG(raw.IDJAG) }},
	} {
		kinds = append(kinds, k.name)
		switch {
		case !k.present:
		case first != "":
			c.errorf(k.at, "found %s beside %s, expected one kind of credential", k.name, first)
		default:
			first = k.name
			k.set()
		}
	}
	b.MTLS = c.mtls(raw.MTLS) // alone, or beside any of these
	if first == "" && !raw.MTLS.present {
		kinds = append(kinds, "mtls")
		c.errorf(f.at, "found a binding without a credential, expected one of %s", strings.Join(kinds, ", "))
	}
}

// targets returns the canonical targets of a binding, each of which every tool of it must be allowed to reach and no
// other binding may serve for the same tool.
func (c *sidecar) targets(raw *rawBinding, taken map[[2]string]mark) []string {
	var tools []*manifest
	for _, t := range raw.Tools.V {
		if m := c.tool(t); m != nil && !slices.Contains(tools, m) {
			tools = append(tools, m)
		}
	}
	var out []string
	for _, f := range raw.Targets.V {
		if !f.ok {
			continue
		}
		host, port, err := egress.ParseAuthority(f.V, 443)
		if err != nil {
			c.errorf(f.at, "found target %s, expected an exact host with optional port such as api.example.com:443: %v", quote(f.V), err)
			continue
		}
		target := net.JoinHostPort(host, strconv.Itoa(int(port)))
		out = append(out, target)
		for _, m := range tools {
			pair := [2]string{m.tool.Name, target}
			if first, twice := taken[pair]; twice {
				c.errorf(f.at, "found target %s for tool %s a second time, expected one binding for it; the first is at %d:%d",
					target, quote(m.tool.Name), first.line, first.col)
			} else {
				taken[pair] = f.at
			}
			if m.sound && !decideTunnel(m.tool, host, port) {
				c.errorf(f.at, "found target %s, which the manifest of %s does not allow, expected one that egress.allowedDomains covers",
					target, quote(m.tool.Name))
			}
		}
	}
	return out
}

func (c *sidecar) tokenExchange(f field[rawTokenExchange]) *broker.TokenExchange {
	raw := &f.V
	if raw.TokenURL.at.line == 0 {
		return nil // not a mapping
	}
	c.endpoint(raw.TokenURL, true)
	c.endpoint(raw.RevocationURL, true)
	c.target(f.at, raw.Target, raw.Audience, raw.Resource, raw.Scopes)
	if u, err := url.Parse(raw.Resource.V); raw.Resource.ok && (err != nil || !u.IsAbs() || strings.Contains(raw.Resource.V, "#")) {
		c.errorf(raw.Resource.at, "found string %s, expected an absolute URI without fragment", quote(raw.Resource.V))
	}
	ca, _ := c.roots(raw.CAFile)
	for _, t := range []field[string]{raw.SubjectTokenType, raw.ActorTokenType, raw.RequestedTokenType, raw.GrantType} {
		if u, err := url.Parse(t.V); t.V != "" && (err != nil || !u.IsAbs()) {
			c.errorf(t.at, "found string %s, expected a URN such as urn:ietf:params:oauth:token-type:jwt", quote(t.V))
		}
	}
	return &broker.TokenExchange{
		TokenURL: raw.TokenURL.V, RevocationURL: raw.RevocationURL.V, Audience: raw.Audience.V, Resource: raw.Resource.V,
		Target: broker.Target(raw.Target.V), Scopes: plain(raw.Scopes.V), ClientAuth: c.clientAuth(raw.ClientAuth),
		Impersonate: raw.Mode.V == "impersonation", ActorTokenFile: c.actor(f), SubjectTokenType: raw.SubjectTokenType.V,
		ActorTokenType: raw.ActorTokenType.V, GrantType: raw.GrantType.V, RequestedType: raw.RequestedTokenType.V,
		Parameters: parameters(raw.Parameters.V), CAFile: ca, DPoP: raw.DPoP.V, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
}

func (c *sidecar) clientCredentials(f field[rawClientCredentials]) *broker.ClientCredentials {
	raw := &f.V
	if raw.TokenURL.at.line == 0 {
		return nil // not a mapping
	}
	c.endpoint(raw.TokenURL, true)
	c.endpoint(raw.RevocationURL, true)
	c.target(f.at, raw.Target, raw.Audience, raw.Resource, raw.Scopes)
	if raw.ClientAuth.V.Method.V == "none" {
		c.errorf(raw.ClientAuth.V.Method.at, "found method none, expected another: the client is all that this grant knows")
	}
	ca, _ := c.roots(raw.CAFile)
	return &broker.ClientCredentials{
		TokenURL: raw.TokenURL.V, RevocationURL: raw.RevocationURL.V, Audience: raw.Audience.V, Resource: raw.Resource.V,
		Target: broker.Target(raw.Target.V), Scopes: plain(raw.Scopes.V), Parameters: parameters(raw.Parameters.V),
		ClientAuth: c.clientAuth(raw.ClientAuth), CAFile: ca, DPoP: raw.DPoP.V, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
}

// actor returns the file of the actor's token. That there is none must be said, since the issued token then does not tell
// the workload from the caller.
func (c *sidecar) actor(f field[rawTokenExchange]) string {
	raw := &f.V
	if raw.Mode.V == "impersonation" {
		for _, k := range []struct {
			name string
			f    field[string]
		}{{"actorTokenFile", raw.ActorTokenFile}, {"actorTokenType", raw.ActorTokenType}} {
			if k.f.V != "" {
				c.errorf(k.f.at, "found %s, expected none: an impersonation has no actor", k.name)
			}
		}
		return ""
	}
	path := c.secretFile(raw.ActorTokenFile)
	if path == "" {
		path = c.resolve(c.raw.Identity.V.WorkloadTokenFile)
	}
	if path == "" && raw.Mode.ok && raw.ActorTokenFile.V == "" {
		c.errorf(f.at, "found no actor, expected actorTokenFile or identity.workloadTokenFile, or mode: impersonation for a token that is as the caller's own")
	}
	return path
}

// target checks that a token is asked for one upstream.
func (c *sidecar) target(at mark, target field[targetBy], audience, resource field[string], scopes field[[]field[scope]]) {
	if !audience.present && !resource.present && target.V != targetBy(broker.TargetScope) {
		c.errorf(at, "found neither audience nor resource, expected at least one: a token is for one upstream")
		return
	}
	if !target.ok {
		return
	}
	for _, k := range []struct {
		name         string
		needed, have bool
	}{
		{"audience", target.V == "audience" || target.V == "both", audience.present},
		{"resource", target.V == "resource" || target.V == "both", resource.present},
		{"scopes", target.V == "scope", len(scopes.V) > 0},
	} {
		if k.needed && !k.have {
			c.errorf(target.at, "found target %s without %s, expected it", target.V, k.name)
		}
	}
}

func parameters(list []field[rawParameter]) []broker.Parameter {
	var out []broker.Parameter
	for _, p := range list {
		out = append(out, broker.Parameter{Name: string(p.V.Name.V), Value: p.V.Value.V})
	}
	return out
}

// clientAuth checks that a method has what it needs and nothing that it would ignore.
func (c *sidecar) clientAuth(f field[rawClientAuth]) broker.ClientAuth {
	raw := &f.V
	out := broker.ClientAuth{
		Method: string(raw.Method.V), ClientID: raw.ClientID.V, SecretFile: c.secretFile(raw.SecretFile),
		TokenFile: c.secretFile(raw.TokenFile), KeyID: raw.KeyID.V, Audience: raw.Audience.V,
	}
	if !raw.Method.ok {
		return out
	}
	secret := raw.Method.V == "client_secret_basic" || raw.Method.V == "client_secret_post"
	key := raw.Method.V == "private_key_jwt"
	token, cert := raw.Method.V == "workload_token", raw.Method.V == "tls_client_auth"
	if cert {
		out.CertFile, out.CertKeyFile = c.secretFile(raw.CertFile), c.keyFile(raw.KeyFile)
	} else {
		out.KeyFile = c.keyFile(raw.KeyFile)
	}
	for _, k := range []struct {
		name         string
		f            field[string]
		needed, used bool
	}{
		{"clientID", raw.ClientID, secret || key || cert, true},
		{"secretFile", raw.SecretFile, secret, secret},
		{"keyFile", raw.KeyFile, key || cert, key || cert},
		{"certFile", raw.CertFile, cert, cert},
		{"tokenFile", raw.TokenFile, token, token},
		{"keyID", raw.KeyID, false, key},
		{"audience", raw.Audience, false, key},
	} {
		if k.needed && !k.f.present {
			c.errorf(f.at, "found no %s, expected it: method %s needs it", k.name, raw.Method.V)
		}
		if !k.used && k.f.present {
			c.errorf(k.f.at, "found %s, expected none: method %s does not use it", k.name, raw.Method.V)
		}
	}
	return out
}

// reservedHeaders frame the message or speak to the proxy; a credential in them would break the one or reach nobody.
var reservedHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Content-Type": true, "Expect": true, "Host": true, "Keep-Alive": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true,
	"Toolgate-Authorization": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}
