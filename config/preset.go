package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/identity"
)

// shapeOfTokens fills in what tokens look like: what the file says, else what the preset says, else the defaults.
func (c *sidecar) shapeOfTokens(raw *rawIssuer, is *identity.Issuer) {
	p := identity.Preset(raw.Preset.V)
	s := p.Settings()
	var filled []string
	fill := func(key string, given bool, written, preset []string) []string {
		if given || p == "" {
			return written
		}
		filled = append(filled, key+" "+listText(preset))
		return preset
	}
	is.Algorithms = fill("algorithms", raw.Algorithms.present, plain(raw.Algorithms.V), s.Algorithms)
	is.Types = fill("types", raw.Types.present, plain(raw.Types.V), s.Types)
	is.Require = fill("require", raw.Require.present, plain(raw.Require.V), s.Require)
	for _, k := range claimKeys(&raw.Claims.V, &is.Claims, &s.Claims) {
		*k.to = fill("claims."+k.name, k.raw.present, listed(k.raw.V), *k.preset)
	}
	if p == "" || !raw.Preset.ok {
		return
	}
	c.notef(raw.Preset.at, "preset %s sets %s", p, strings.Join(filled, ", "))
	pinned := slices.ContainsFunc(is.Match, func(m identity.Match) bool { return slices.Contains(s.MustMatch, m.Claim) })
	if len(s.MustMatch) > 0 && !pinned && !raw.Match.present {
		c.errorf(raw.Preset.at, "found preset %s without match, expected one of the claims %s: the issuer signs for everybody, and for any audience", p, strings.Join(s.MustMatch, ", "))
	} else if len(s.MustMatch) > 0 && !pinned && raw.Match.ok {
		c.errorf(raw.Match.at, "found match without one of the claims %s, expected it: the issuer signs for everybody, and for any audience", strings.Join(s.MustMatch, ", "))
	}
}

// claimKey is one key of claims: as written, where it goes, and what a preset says.
type claimKey struct {
	name       string
	raw        *field[names]
	to, preset *[]string
}

func claimKeys(raw *rawClaims, to, preset *identity.ClaimMap) []claimKey {
	return []claimKey{
		{"subject", &raw.Subject, &to.Subject, &preset.Subject}, {"tenant", &raw.Tenant, &to.Tenant, &preset.Tenant},
		{"agent", &raw.Agent, &to.Agent, &preset.Agent}, {"task", &raw.Task, &to.Task, &preset.Task}, {"run", &raw.Run, &to.Run, &preset.Run},
		{"scopes", &raw.Scopes, &to.Scopes, &preset.Scopes}, {"roles", &raw.Roles, &to.Roles, &preset.Roles},
		{"tokenID", &raw.TokenID, &to.TokenID, &preset.TokenID},
	}
}

// listed is plain, but never nil: an empty list means no claim, and nil the default.
func listed(list names) []string { return append([]string{}, plain(list)...) }

func listText(list []string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		if texts[i] = s; s == "" {
			texts[i] = `""`
		}
	}
	return fmt.Sprintf("[%s]", strings.Join(texts, ", "))
}
