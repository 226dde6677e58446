package login

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/killswitch/central"
)

// Grant is what a value of the roles claim gives.
type Grant struct {
	Role    central.Role
	Tenants []string // empty: all
}

// RoleMap says what each value of the roles claim gives; what it does not name gives nothing.
type RoleMap map[string]Grant

// ParseRoleMap reads "VALUE=ROLE" and "VALUE=ROLE@TENANT,TENANT". The last "=" counts, since a value may be a name such as
// "cn=sre,ou=groups".
func ParseRoleMap(texts []string) (RoleMap, error) {
	m := RoleMap{}
	for _, text := range texts {
		i := strings.LastIndex(text, "=")
		if i <= 0 {
			return nil, fmt.Errorf("found %q, expected VALUE=ROLE or VALUE=ROLE@TENANT,TENANT", text)
		}
		value := text[:i]
		role, tenants, limited := strings.Cut(text[i+1:], "@")
		g := Grant{Role: central.Role(role)}
		if !g.Role.Valid() {
			return nil, fmt.Errorf("found role %q, expected viewer, responder or admin", role)
		}
		if limited {
			// An empty list would limit nothing.
			g.Tenants = strings.Split(tenants, ",")
			if slices.Contains(g.Tenants, "") {
				return nil, fmt.Errorf("found an empty tenant in %q", text)
			}
		}
		if _, twice := m[value]; twice {
			return nil, fmt.Errorf("found %q twice", value)
		}
		m[value] = g
	}
	return m, nil
}

// ranks orders the roles: each may what those before it may.
var ranks = []central.Role{central.Viewer, central.Responder, central.Admin}

// apply adds the highest role that the values give to p, with the tenants that go with that role, and reports whether there
// is one. Lower roles add nothing: "viewer of all, responder of acme" is a responder of acme, who never gets more than each
// grant says.
func (m RoleMap) apply(p *central.Principal, values []string) bool {
	best, all := -1, false
	for _, v := range values {
		g, ok := m[v]
		if !ok {
			continue
		}
		switch rank := slices.Index(ranks, g.Role); {
		case rank < best:
			continue
		case rank > best:
			best, all, p.Tenants = rank, false, nil
		}
		all = all || len(g.Tenants) == 0
		p.Tenants = append(p.Tenants, g.Tenants...)
	}
	if best < 0 {
		return false
	}
	p.Roles = []central.Role{ranks[best]}
	if all {
		p.Tenants = nil
	}
	*p = reduce(*p)
	return true
}

// claimValues returns the texts of a claim: a list of them, or one. name is the claim's, or, when it begins with "/", a JSON
// pointer (RFC 6901) to it.
func claimValues(claims map[string]json.RawMessage, name string) []string {
	raw := claims[name]
	if pointer, ok := strings.CutPrefix(name, "/"); ok {
		raw = nil
		object := claims
		for step := range strings.SplitSeq(pointer, "/") {
			raw = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
			object = nil
			if json.Unmarshal(raw, &object) != nil {
				object = nil
			}
		}
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}
