package proxy

import (
	"strings"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
)

// credentials finds the caller's token: Proxy-Authorization, then Toolgate-Authorization, then the listener's token file.
// Nothing else counts. A header that is there and unreadable denies; it is not passed over, since a client that meant to
// authenticate must not end up as somebody else. The user is a tool's name.
func (c *call) credentials(a *ask) (user, token string, d *Denial) {
	if v := a.proxyAuthorization; len(v) > 0 {
		given := a.proxyCredentials
		if given == nil {
			given = readProxyCredentials(v)
		}
		if user, token = given.user, given.token; !given.ok {
			return "", "", deny(Unauthenticated, "Proxy-Authorization is neither Bearer with a token nor Basic with the token as password.", nil)
		}
		if token != "" {
			return user, token, nil
		}
	}
	if v := a.toolgateAuthorization; len(v) > 0 {
		token, ok := identity.FromBearer(v[0])
		if len(v) > 1 || !ok {
			return "", "", deny(Unauthenticated, "Toolgate-Authorization carries no token.", nil)
		}
		return user, token, nil
	}
	if f := c.gates.tokenFiles[c.listener.Name]; f != nil {
		token, err := f.Token()
		if err != nil {
			return "", "", deny(NotReady, "The listener's token file cannot be read.", err)
		}
		return user, token, nil
	}
	return user, "", nil
}

// proxyCredentials is what Proxy-Authorization says.
type proxyCredentials struct {
	user, token string
	ok          bool // there is one, and it can be read
}

func readProxyCredentials(lines []string) *proxyCredentials {
	p := new(proxyCredentials)
	if len(lines) == 1 {
		p.user, p.token, p.ok = identity.FromProxyAuthorization(lines[0])
	}
	return p
}

// missingTraceField returns the first trace field that a tool requires and the call lacks. A field that nothing here
// can supply is missing.
func (c *call) missingTraceField(tool *config.Tool, a *ask) string {
	for _, field := range tool.RequiredTraceFields {
		have := false
		switch strings.ToLower(field) {
		case "run_id", "run":
			have = c.caller.Run != ""
		case "actor_id", "actor", "subject":
			have = c.caller.Subject != ""
		case "agent_id", "agent":
			have = c.caller.Agent != ""
		case "task_id", "task":
			have = c.caller.Task != ""
		case "tenant_id", "tenant":
			have = c.caller.Tenant != ""
		case "trace_id":
			_, _, have = audit.ParseTraceparent(a.traceparent)
		case "policy_version", "policy_revision", "tool", "tool_name", "tool_version", "decision", "latency_ms":
			have = true // every record has them
		}
		if !have {
			return field
		}
	}
	return ""
}

// scope is the call as the kill switch sees it.
func (c *call) scope() killswitch.Scope {
	s := killswitch.Scope{
		Tool: c.tool.Name, Version: c.tool.Version, Risk: c.tool.Risk, CapabilityClasses: c.tool.CapabilityClasses,
		Tenant: c.caller.Tenant, Subject: c.caller.Subject, Agent: c.caller.Agent, Task: c.caller.Task, Run: c.caller.Run,
		Host: c.target.Host,
	}
	if c.target.Scheme == "" {
		s.Inside = &c.inside
	}
	return s
}

// subject is the call as the broker sees it.
func (c *call) subject() broker.Subject {
	return broker.Subject{
		Issuer: c.caller.Issuer, Subject: c.caller.Subject, Tenant: c.caller.Tenant, Agent: c.caller.Agent,
		Task: c.caller.Task, Run: c.caller.Run, TokenID: c.caller.TokenID,
		Token: c.token, TokenHash: c.caller.TokenHash, Expiry: c.caller.Expiry,
		Tool: c.tool.Name, Version: c.tool.Version, RequiredScopes: c.tool.RequiredScopes,
		Trace: c.exemplar(),
	}
}
