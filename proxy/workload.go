package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/identity"
)

// workload is who came to a gateway for a caller, by what it showed.
type workload struct {
	ids    []string
	chain  []*x509.Certificate // nil: a token
	issuer string              // of the token
	shown  time.Time
}

func workloadsFor(s *config.Snapshot, before *Gates) (*identity.Verifier, error) {
	switch {
	case s.Gateway.Tokens == nil:
		return nil, nil
	case before != nil && before.workloads != nil && before.snapshot.Gateway.Digest == s.Gateway.Digest:
		return before.workloads, nil
	}
	return identity.New([]identity.Issuer{*s.Gateway.Tokens})
}

func (c *call) isGateway() bool { return c.listener.Kind == config.Gateway }

// judgeWorkload is the first half of the gateway's own gate: who comes. It stands before the caller's token, which somebody may have
// carried off: without a workload that is known a token opens nothing here.
func (c *call) judgeWorkload(ctx context.Context, a *ask) *Denial {
	if !c.isGateway() {
		return nil
	}
	w, err := c.gates.recognise(ctx, a, c.rec.Time)
	if c.trace != nil && a.explained != "" {
		w, err = &workload{ids: []string{a.explained}}, nil
	}
	if c.trace != nil && a.explained == "" {
		return nil // judgeSpeaker says so
	}
	if err != nil {
		return workloadDenial(err)
	}
	c.workload, c.rec.Workload = w, w.ids[0]
	return nil
}

func workloadDenial(err error) *Denial {
	var invalid *identity.InvalidError
	switch {
	case errors.Is(err, identity.ErrNoWorkload):
		return deny(WorkloadNotAllowed, "No workload was shown: neither a certificate nor a token.", err)
	case errors.As(err, &invalid):
		return deny(WorkloadNotAllowed, "What the workload shows is not accepted: "+invalid.Reason+".", err)
	default:
		return deny(NotReady, "The keys of the workloads' issuer cannot be had at the moment.", err)
	}
}

// recognise verifies what a workload shows: one thing, so that it is clear who it is.
func (g *Gates) recognise(ctx context.Context, a *ask, now time.Time) (*workload, error) {
	switch {
	case len(a.peer) > 0 && a.workload != "":
		return nil, &identity.InvalidError{Reason: "claim"}
	case a.workload == "":
		ids, err := g.certificates.Verify(a.peer, now)
		return &workload{ids: ids, chain: a.peer, shown: now}, err
	case g.workloads == nil:
		return nil, &identity.InvalidError{Reason: "issuer"}
	}
	who, err := g.workloads.Verify(ctx, a.workload)
	switch {
	case err != nil:
		return nil, err
	case who.Subject == "", strings.HasPrefix(who.Subject, "dns:"): // names are a certificate's
		return nil, &identity.InvalidError{Reason: "claim"}
	}
	return &workload{ids: []string{who.Subject}, issuer: who.Issuer, shown: now}, nil
}

// judgeSpeaker is the second half: whether who comes may speak for this tool, and for callers of this tenant.
func (c *call) judgeSpeaker() *Denial {
	switch {
	case !c.isGateway():
		return nil
	case c.workload == nil: // explained without one
		c.step("workload", nil, "not judged: no workload was given")
		return nil
	}
	var d *Denial
	id := c.gates.speaker(c.workload.ids, c.tool.Name, c.caller.Tenant)
	if id == "" {
		d = deny(WorkloadNotAllowed, "The workload may not speak for this tool or for callers of this tenant.", nil)
	} else {
		c.rec.Workload = id
	}
	c.step("workload", d, id)
	return d
}

// speaker returns the first of ids that may speak for the tool and the tenant, or "".
func (g *Gates) speaker(ids []string, tool, tenant string) string {
	for _, w := range g.snapshot.Gateway.Workloads {
		if !slices.Contains(w.Tools, tool) || len(w.Tenants) > 0 && !slices.Contains(w.Tenants, tenant) {
			continue
		}
		for _, id := range ids {
			if slices.ContainsFunc(w.IDs, func(p identity.WorkloadPattern) bool { return p.Match(id, tenant) }) {
				return id
			}
		}
	}
	return ""
}

// admits reports whether a workload that is inside would be let in by these gates too, by what it showed when it came.
func (g *Gates) admits(w *workload, tool, tenant string) bool {
	switch {
	case w.chain != nil:
		if _, err := identity.VerifyCertificate(w.chain, g.snapshot.Gateway.ClientCAs, w.shown); err != nil {
			return false
		}
	case g.snapshot.Gateway.Tokens == nil || g.snapshot.Gateway.Tokens.URL != w.issuer:
		return false
	}
	return g.speaker(w.ids, tool, tenant) != ""
}
