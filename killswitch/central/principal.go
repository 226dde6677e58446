package central

import (
	"slices"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Role is what a principal may do.
type Role string

// The roles. Each may what the ones before it may.
const (
	Viewer    Role = "viewer"    // look
	Responder Role = "responder" // revoke, restore, propose, approve, drill
	Admin     Role = "admin"     // import entries into the log
)

var roles = []Role{Viewer, Responder, Admin}

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Principal is who asks, as something that is not this package has found out. The zero value may nothing.
type Principal struct {
	Name    string   // stands in the log as by; unique among all who may ask
	Roles   []Role   // the highest counts
	Tenants []string // not empty: only selectors that name nothing but these tenants
}

func (p *Principal) has(r Role) bool {
	need := slices.Index(roles, r)
	return p.Name != "" && len(p.Name) <= ledger.MaxText &&
		slices.ContainsFunc(p.Roles, func(have Role) bool { return slices.Index(roles, have) >= need })
}

// May reports whether p has a role. What it may do with it depends on its tenants, too.
func (p Principal) May(r Role) bool { return p.has(r) }

func (p *Principal) require(r Role) error {
	if !p.has(r) {
		return refuse(Forbidden, "this needs the role %s", r)
	}
	return nil
}

// requireAll is require for what cannot be limited to tenants.
func (p *Principal) requireAll(r Role) error {
	if err := p.require(r); err != nil {
		return err
	}
	if len(p.Tenants) > 0 {
		return refuse(Forbidden, "this concerns all tenants, and %q is limited to some", p.Name)
	}
	return nil
}

// covers reports whether a selector lies within p's tenants. One without tenants covers them all.
func (p *Principal) covers(s *ledger.Selector) bool {
	if len(p.Tenants) == 0 {
		return true
	}
	return s != nil && !s.All && len(s.Tenant) > 0 &&
		!slices.ContainsFunc(s.Tenant, func(t string) bool { return !slices.Contains(p.Tenants, t) })
}

// errNotYours is the same whether the id belongs to others or to nobody, so that it tells nothing about others.
func errNotYours(p *Principal) error {
	return refuse(Forbidden, "no such revocation among the tenants that %q may act for", p.Name)
}
