package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/redact"
)

// decide runs the gates in their only order and fills the record as it goes. What follows, and needs the network, is
// credential (6b) and the dial (7), whose addresses the dialer judges.
func (c *call) decide(ctx context.Context, a *ask) *Denial {
	c.asked = a
	c.attempts.Traceparent = a.traceparent
	defer c.joinTrace(a)
	if d := c.judgeTarget(a); d != nil { // 1: one canonical host
		return d
	}
	if d := c.judgeCaller(ctx, a); d != nil { // 2: who calls, and 3: which tool
		return d
	}
	if d := c.guard(ctx); d != nil { // 4: not revoked, and from here on revocable
		return d
	}
	if d := c.judgePermission(a); d != nil { // 5a: this caller may use this tool
		return d
	}
	if d := c.judgeEgress(); d != nil { // 5b: this tool may go there
		return d
	}
	return c.chooseBinding() // 6a: which credential must go along
}

func (c *call) judgeTarget(a *ask) *Denial {
	t, d := a.target()
	c.target = t
	c.rec.Scheme, c.rec.Host, c.rec.Port, c.rec.Method = t.Scheme, t.Host, t.Port, a.method
	if !a.tunnel && t.Path != "" {
		c.rec.Path = redact.Hash(t.Path)
	}
	if c.trace != nil {
		c.step("target", d, t.HostPort())
	}
	return d
}

func (c *call) judgeCaller(ctx context.Context, a *ask) *Denial {
	if d := c.judgeWorkload(ctx, a); d != nil { // 2a, of a gateway: who comes for the caller
		return d
	}
	user, token, d := c.credentials(a)
	if d == nil {
		d = c.verify(ctx, token)
	}
	c.step("caller", d, c.callerText())
	if d != nil {
		return d
	}
	if d := c.proxy.fenceDenial(); d != nil {
		c.step("tool", d, "")
		return d
	}
	name := c.listener.Tool
	if name == "" && slices.Contains(c.listener.Tools, user) {
		name = user
	}
	c.tool = c.gates.snapshot.Tools[name]
	if c.tool == nil {
		d = deny(ToolUnknown, "This listener serves no tool of that name.", nil)
	} else {
		t := c.tool
		c.rec.Tool, c.rec.ToolVersion, c.rec.Risk, c.rec.CapabilityClasses = t.Name, t.Version, t.Risk, t.CapabilityClasses
		c.rec.SideEffects, c.rec.ApprovalRequired = t.SideEffects, t.ApprovalRequired
		c.rec.RunClassesBefore = c.proxy.runs.before(runOf(c.caller))
	}
	c.step("tool", d, name)
	if d == nil {
		d = c.judgeSpeaker() // 3a, of a gateway: whether who comes may speak for this tool and this caller
	}
	if d == nil {
		d = c.judgeReplay() // 3b: whether the token may be used again
	}
	return d
}

// nobody is the caller of a call without a token. Callers are read only.
var nobody identity.Caller

// verify is gate 2. Without a token the caller is nobody, which is enough only where the config says so.
func (c *call) verify(ctx context.Context, token string) *Denial {
	if token == "" && !c.gates.snapshot.Identity.Required {
		c.caller = &nobody
		return nil
	}
	caller, err := c.identify(ctx, token)
	if err != nil {
		return callerDenial(err)
	}
	c.caller, c.token = caller, redact.New(token)
	c.rec.Issuer, c.rec.Tenant, c.rec.Subject, c.rec.Agent = caller.Issuer, caller.Tenant, caller.Subject, caller.Agent
	c.rec.Task, c.rec.Run = caller.Task, caller.Run
	return nil
}

func callerDenial(err error) *Denial {
	var invalid *identity.InvalidError
	switch {
	case errors.Is(err, identity.ErrNoToken):
		return deny(Unauthenticated, "No task token was given.", err)
	case errors.As(err, &invalid) && invalid.Reason == "bound":
		return deny(Unauthenticated, "The task token is not accepted: bound. A proof for it cannot be checked here; ask for a bearer token.", err)
	case errors.As(err, &invalid):
		return deny(Unauthenticated, "The task token is not accepted: "+invalid.Reason+".", err)
	default:
		return deny(NotReady, "The issuer's keys, or its word on the token, cannot be had at the moment.", err)
	}
}

func (c *call) identify(ctx context.Context, token string) (*identity.Caller, error) {
	if c.unverified {
		return c.gates.verifier.Inspect(token)
	}
	return c.gates.verifier.Verify(ctx, token)
}

// guard is gate 4. From here on c.ctx ends when a revocation covers the call.
func (c *call) guard(ctx context.Context) *Denial {
	guarded, release, err := c.proxy.kill.Guard(ctx, c.scope())
	d := c.killDenial(err)
	c.step("kill_switch", d, "")
	if d == nil {
		c.ctx, c.release = guarded, release
	}
	return d
}

func (c *call) killDenial(err error) *Denial {
	if err == nil {
		return nil
	}
	var tripped *killswitch.Tripped
	switch {
	case errors.As(err, &tripped):
		c.rec.RevocationID = tripped.Revocation.ID
		return deny(Revoked, "Revoked: "+redact.Text(tripped.Revocation.Reason)+".", err)
	default:
		return deny(KillSwitchStale, "The kill switch is out of touch, and this tool's risk is "+c.tool.Risk+".", err)
	}
}

// judgePermission is gate 5a. A caller whose token carries scopes must carry the tool's; a side-effecting tool needs a
// working record.
func (c *call) judgePermission(a *ask) *Denial {
	d := c.permission(a)
	c.step("permission", d, "")
	return d
}

func (c *call) permission(a *ask) *Denial {
	if strings.EqualFold(a.method, http.MethodTrace) || slices.Contains(a.overrides, http.MethodTrace) { // its answer is the request, credential and all (RFC 9110, section 9.3.8)
		return deny(MethodNotAllowed, "TRACE is not carried.", nil)
	}
	if d := c.granted(c.tool, a); d != nil {
		return d
	}
	if err := c.proxy.audit.Ready(); err != nil && c.tool.SideEffecting() {
		return deny(NotReady, "Records cannot be written, and this tool has side effects.", err)
	}
	return nil
}

// granted judges what the caller brings against what the tool asks for.
func (c *call) granted(tool *config.Tool, a *ask) *Denial {
	if c.caller.Scopes != nil {
		for _, s := range tool.RequiredScopes {
			if !slices.Contains(c.caller.Scopes, s) {
				return deny(InsufficientScope, "The task token lacks the scope "+s+".", nil)
			}
		}
	}
	if len(tool.Roles) > 0 && !slices.ContainsFunc(tool.Roles, func(r string) bool { return slices.Contains(c.caller.Roles, r) }) {
		return deny(RoleNotAllowed, "None of the caller's roles may use this tool.", nil)
	}
	if missing := c.missingTraceField(tool, a); missing != "" {
		return deny(TraceFieldMissing, "The call does not carry "+missing+".", nil)
	}
	return nil
}

// judgeEgress is gate 5b. In report mode a denial by the manifest is recorded and does not deny; an address that is out
// of bounds always does.
func (c *call) judgeEgress() *Denial {
	if err := c.gates.addresses.JudgeHost(c.tool.Name, c.target.Host, c.target.Port); err != nil {
		d := deny(PrivateNetwork, "The address is out of bounds for tools.", err)
		c.step("egress", d, "")
		return d
	}
	v := c.asked.judge(c.tool.Policy, c.target)
	c.rec.Rule = v.Rule
	if v.Path != "" {
		c.rec.Path = v.Path
	}
	var d *Denial
	if v.Verdict != egress.Allow {
		d = c.egressDenial(v.Code)
	}
	if d != nil && c.gates.snapshot.Mode == config.Report {
		c.rec.Code = string(d.Code)
		c.step("egress", nil, "report mode: would be denied, "+string(d.Code))
		return nil
	}
	c.step("egress", d, v.Rule)
	return d
}

func (c *call) egressDenial(code egress.Code) *Denial {
	switch Code(code) {
	case MethodNotAllowed:
		return deny(MethodNotAllowed, "The manifest of "+c.tool.Name+" does not allow this method on "+c.target.Host+".", nil)
	case PathNotAllowed:
		return deny(PathNotAllowed, "The manifest of "+c.tool.Name+" does not allow this path on "+c.target.Host+".", nil)
	default: // whatever a gate may say that is unknown here denies by the widest reason
		return deny(DomainNotAllowed, "The manifest of "+c.tool.Name+" does not list "+c.target.HostPort()+".", nil)
	}
}

// chooseBinding is gate 6a. A bound target is reached only where the sidecar sees each request and TLS guards the
// credential: a tunnel is intercepted, a plain request refused.
func (c *call) chooseBinding() *Denial {
	c.binding = c.gates.broker.Find(c.tool.Name, c.target.Host, c.target.Port)
	var d *Denial
	if c.binding != nil && c.target.Scheme == "http" {
		d = deny(CredentialDenied, "The credential for this host is sent over TLS only; use https.", nil)
	}
	c.intercept = c.target.Scheme == "" && !c.isGateway() && c.gates.mustIntercept(c.tool, c.target)
	c.step("credential", d, c.bindingText())
	return d
}

// mustIntercept reports whether a tunnel of a tool is one whose requests must be seen.
func (g *Gates) mustIntercept(tool *config.Tool, t egress.Target) bool {
	if g.broker.Find(tool.Name, t.Host, t.Port) != nil || tool.Policy.NeedsIntercept(t.Host, t.Port) {
		return true
	}
	return slices.ContainsFunc(g.snapshot.Intercept.Targets, func(p egress.Pattern) bool { return p.Match(t.Host, t.Port) })
}

// stands reports whether other gates would let the call through as well, for what was open when they came into force.
func (c *call) stands(g *Gates) bool { return c.against(g) == "" }
