package proxy

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
)

// requests knows the requests that are being carried, so that a reload can end those that the new policy does not allow. Tunnels
// are in the registry. It bounds how many one tenant has.
type requests struct {
	maxPerTenant int

	mu      sync.Mutex
	calls   map[*call]context.CancelCauseFunc
	tenants map[string]int // how many by tenant
}

// policyChanged ends what other gates than its own would not have let through.
type policyChanged struct {
	code     Code   // of the gate that denies it now
	revision string // of the policy that does
}

// Error names the code.
func (e *policyChanged) Error() string {
	return "the policy that let it through is no longer in force: " + string(e.code)
}

// denial is what a client is told that has no answer yet. The record names the policy that decided: the new one, unless the call was
// under way by the old one's word.
func (e *policyChanged) denial(c *call) *Denial {
	c.rec.ErrorClass = "policy_changed"
	if !c.sent() {
		c.rec.PolicyRevision = e.revision
	}
	return deny(e.code, "The policy has just changed.", e)
}

// enter registers a call which cancel ends. A call that was decided by gates which a reload has just replaced may have come too
// late for their review; if the new ones deny it, enter returns why.
func (p *Proxy) enter(c *call, cancel context.CancelCauseFunc) *Denial {
	if !p.running.add(c, cancel) {
		return deny(TooManyCalls, "The tenant's limit of requests is reached.", nil)
	}
	if g := p.gates.Load(); g != c.gates {
		if e := c.changed(g); e != nil {
			return e.denial(c)
		}
	}
	return nil
}

func (r *requests) add(c *call, cancel context.CancelCauseFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls, r.tenants = map[*call]context.CancelCauseFunc{}, map[string]int{}
	}
	tenant := c.rec.Tenant
	if tenant != "" && r.tenants[tenant] >= r.maxPerTenant {
		return false
	}
	r.calls[c] = cancel
	r.tenants[tenant]++
	return true
}

// reached notes where the call is connected to, which its gates had judged.
func (c *call) reached(conn net.Conn, cancel context.CancelCauseFunc) {
	peer, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return
	}
	c.peer.Store(peer)
	c.passed(conn)
	if g := c.proxy.gates.Load(); g != c.gates { // a review may have passed already
		if e := c.changed(g); e != nil {
			cancel(e)
		}
	}
}

func (p *Proxy) leave(c *call) {
	r := &p.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.calls[c]; there {
		delete(r.calls, c)
		less(r.tenants, c.rec.Tenant)
	}
}

// review ends the calls that may not go on under new gates. They are judged outside the lock, which every call takes.
func (r *requests) review(g *Gates) {
	r.mu.Lock()
	calls := maps.Clone(r.calls)
	r.mu.Unlock()
	for c, cancel := range calls {
		if e := c.changed(g); e != nil {
			cancel(e)
		}
	}
}

// changed returns why other gates would not let the running request go on, to where it is connected; nil: they would.
func (c *call) changed(g *Gates) *policyChanged {
	code := c.against(g)
	if peer := c.peer.Load(); code == "" && peer != nil && !c.wayStands(g, peer) {
		code = PrivateNetwork
	}
	if code == "" {
		return nil
	}
	return &policyChanged{code: code, revision: g.snapshot.Revision}
}

// against returns the code with which other gates would deny the call, or "": tool, caller, permission, target. The token is not
// verified again; that its issuer is still believed is enough.
func (c *call) against(g *Gates) Code {
	tool, l := g.snapshot.Tools[c.tool.Name], g.listener(c.listener.Name)
	switch {
	case tool == nil, l.Tool != tool.Name && !slices.Contains(l.Tools, tool.Name):
		return ToolUnknown
	case !g.believes(c.caller):
		return Unauthenticated
	case c.workload != nil && !g.admits(c.workload, tool.Name, c.caller.Tenant):
		return WorkloadNotAllowed
	case g.addresses.JudgeHost(tool.Name, c.target.Host, c.target.Port) != nil:
		return PrivateNetwork
	}
	if d := c.granted(tool, c.asked); d != nil {
		return d.Code
	}
	if v := c.asked.judge(tool.Policy, c.target); v.Verdict != egress.Allow && g.snapshot.Mode != config.Report {
		return c.egressDenial(v.Code).Code
	}
	if c.target.Scheme == "http" && g.broker.Find(tool.Name, c.target.Host, c.target.Port) != nil {
		return CredentialDenied
	}
	return ""
}

// believes reports whether callers of this one's issuer are let in. A caller without an issuer is nobody.
func (g *Gates) believes(who *identity.Caller) bool {
	if who == nil || who.Issuer == "" {
		return !g.snapshot.Identity.Required
	}
	return slices.ContainsFunc(g.snapshot.Identity.Issuers, func(i identity.Issuer) bool { return i.URL == who.Issuer })
}

// wayStands reports whether a connection to peer, made under the call's own gates, might be made under others.
func (c *call) wayStands(g *Gates, peer net.Addr) bool {
	is, was := &g.snapshot.Egress, &c.gates.snapshot.Egress
	if is.UpstreamProxy != was.UpstreamProxy || !sameGateway(is.Gateway, was.Gateway) {
		return false // it goes another way out than it may
	}
	if is.UpstreamProxy != (config.UpstreamProxy{}) || is.Gateway.Host != "" {
		return true // its peer is the proxy
	}
	at, ok := peer.(*net.TCPAddr)
	return ok && g.addresses.Judge(c.tool.Name, at.AddrPort()) == nil
}
