package identity

import (
	"maps"
	"slices"
	"testing"
)

// presetCase is a token of the shape that a product documents, with values made up, and what becomes of it.
type presetCase struct {
	preset Preset
	name   string
	header map[string]any
	claims map[string]any
	want   Caller
	match  []Match

	// The token is refused if one of these claims is of another type, or if one of those is missing.
	typed   []string
	missing []string
}

const guid = "00000001-0000-0ff1-ce00-000000000000"

// obj shortens nested claims.
type obj = map[string]any

func presetCases() []presetCase {
	entra := obj{
		"aud": "toolgate", "aio": "Y2JgYGhn", "azp": "aaaaaaaa-1111-2222-3333-444444444444", "azpacr": "2", "idtyp": "app",
		"oid": "bbbbbbbb-1111-2222-3333-444444444444", "rh": "1.AAAA.", "sub": "cccccccc-1111-2222-3333-444444444444", "tid": guid,
		"uti": "m5RaaRnoFUyp2TbSCAAAAA", "ver": "2.0", "roles": []string{"Orders.Read", "Orders.Write"}, "xms_act_fct": "3 9 11",
		"xms_sub_fct": "9 3 11", "xms_par_app_azp": "30cf4c22-9985-4ef7-8756-91cc888176bd",
	}
	entraV1 := maps.Clone(entra)
	maps.DeleteFunc(entraV1, func(k string, _ any) bool { return k == "azp" || k == "azpacr" || k == "roles" })
	maps.Copy(entraV1, obj{"appid": "aaaaaaaa-1111-2222-3333-444444444444", "ver": "1.0", "scp": "orders.read refunds.draft", "sid": "s-1"})
	rs := obj{"typ": "JWT"}
	return []presetCase{
		{
			preset: PresetEntra, name: "an agent for itself", header: rs, claims: entra, typed: []string{"oid", "tid", "azp", "uti", "roles"}, missing: []string{"oid", "tid", "uti", "iat"},
			want: Caller{Subject: "bbbbbbbb-1111-2222-3333-444444444444", Tenant: guid, Agent: "aaaaaaaa-1111-2222-3333-444444444444",
				Roles: []string{"Orders.Read", "Orders.Write"}, TokenID: "m5RaaRnoFUyp2TbSCAAAAA"},
		},
		{
			preset: PresetEntra, name: "an agent for a user, version 1", header: rs, claims: entraV1, typed: []string{"appid", "scp", "sid"},
			want: Caller{Subject: "bbbbbbbb-1111-2222-3333-444444444444", Tenant: guid, Agent: "aaaaaaaa-1111-2222-3333-444444444444",
				Run: "s-1", Scopes: []string{"orders.read", "refunds.draft"}, TokenID: "m5RaaRnoFUyp2TbSCAAAAA"},
		},
		{
			preset: PresetAuth0, name: "the default profile", header: rs,
			claims: obj{"sub": "auth0|6553da60a54af58e29493993", "aud": []string{"toolgate", "https://tenant.auth0.example/userinfo"}, "azp": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
				"org_id": "org_9ybsU1dN2dKfDkBi", "scope": "openid read:patients", "permissions": []string{"read:patients"}, "gty": "password", "https://acme.example/tenant": "other"},
			typed: []string{"azp", "org_id", "scope", "permissions"},
			want: Caller{Subject: "auth0|6553da60a54af58e29493993", Tenant: "org_9ybsU1dN2dKfDkBi", Agent: "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
				Scopes: []string{"openid", "read:patients"}, Roles: []string{"read:patients"}},
		},
		{
			preset: PresetAuth0, name: "the profile of RFC 9068, exchanged by an agent", header: obj{"typ": "at+jwt"},
			claims: obj{"sub": "auth0|6553da60a54af58e29493993", "aud": "toolgate", "client_id": "front", "jti": "73WakrfVbNJBaAmhQtEeDv", "org_id": "org_1",
				"act": obj{"sub": "agent@clients", "act": obj{"sub": "front@clients"}}},
			typed: []string{"act", "jti", "act.sub"}, missing: []string{"iat"},
			want: Caller{Subject: "auth0|6553da60a54af58e29493993", Tenant: "org_1", Agent: "agent@clients", TokenID: "73WakrfVbNJBaAmhQtEeDv"},
		},
		{
			preset: PresetKeycloak, name: "a user's access token", header: rs,
			claims: obj{"jti": "onrtac:5a1f", "sub": "f1d2a7b0-3c1c-4b0e-9d7e-0a1b2c3d4e5f", "typ": "Bearer", "aud": []string{"toolgate", "account"}, "azp": "agent-runtime", "sid": "c0ffee",
				"acr": "1", "realm_access": obj{"roles": []string{"support", "offline_access"}}, "resource_access": obj{"account": obj{"roles": []string{"view-profile"}}},
				"scope": "openid profile", "tenant": "acme", "preferred_username": "alice"},
			typed: []string{"azp", "sid", "tenant", "realm_access", "realm_access.roles"}, missing: []string{"azp", "jti", "iat"},
			want: Caller{Subject: "f1d2a7b0-3c1c-4b0e-9d7e-0a1b2c3d4e5f", Tenant: "acme", Agent: "agent-runtime", Run: "c0ffee",
				Scopes: []string{"openid", "profile"}, Roles: []string{"support", "offline_access"}, TokenID: "onrtac:5a1f"},
		},
		{
			preset: PresetOkta, name: "a user's access token", header: obj{"typ": nil},
			claims: obj{"ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "aud": "toolgate", "cid": "0oabucvyc38HLL1ef0h7", "uid": "00uexample", "scp": []string{"openid", "orders:read"},
				"sub": "alice@acme.example", "auth_time": 1_799_999_990, "groups": []string{"Everyone", "Support"}},
			typed: []string{"cid", "scp", "groups"}, missing: []string{"cid", "jti", "iat"},
			want: Caller{Subject: "alice@acme.example", Agent: "0oabucvyc38HLL1ef0h7", Scopes: []string{"openid", "orders:read"}, Roles: []string{"Everyone", "Support"},
				TokenID: "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE"},
		},
		{
			preset: PresetKubernetes, name: "a pod's projected token", header: obj{"typ": nil},
			claims: obj{"aud": []string{"toolgate"}, "jti": "c55e7a11-6d2d-4b7c-8f6b-0d2f0a4f5b6c", "sub": "system:serviceaccount:acme:refund-agent", "kubernetes.io": obj{
				"namespace": "acme", "node": obj{"name": "node-1", "uid": "n-1"}, "pod": obj{"name": "refund-7d9f", "uid": "8c0b9a0e"},
				"serviceaccount": obj{"name": "refund-agent", "uid": "e1c2"}, "warnafter": 1_800_003_607}},
			typed: []string{"kubernetes.io", "kubernetes.io.namespace", "kubernetes.io.pod", "kubernetes.io.pod.uid"}, missing: []string{"kubernetes.io", "kubernetes.io.pod", "iat"},
			want: Caller{Subject: "system:serviceaccount:acme:refund-agent", Tenant: "acme", Agent: "refund-agent", Task: "refund-7d9f", Run: "8c0b9a0e", TokenID: "c55e7a11-6d2d-4b7c-8f6b-0d2f0a4f5b6c"},
		},
		{
			preset: PresetSPIFFE, name: "a JWT-SVID", header: rs,
			claims: obj{"aud": []string{"toolgate"}, "sub": "spiffe://example.org/ns/agents/sa/research-bot", "tenant": "another", "scope": "admin"},
			typed:  []string{"sub", "aud"}, missing: []string{"sub", "aud"},
			want: Caller{Subject: "spiffe://example.org/ns/agents/sa/research-bot", Agent: "spiffe://example.org/ns/agents/sa/research-bot"},
		},
		{
			preset: PresetGitHub, name: "a job's token", header: rs, match: []Match{{Claim: "repository_owner_id", Values: []string{"64", "65"}}},
			claims: obj{"jti": "9b1d", "sub": "repo:octo-org/octo-repo:environment:prod", "aud": "toolgate", "environment": "prod", "ref": "refs/heads/main", "sha": "0a1b", "repository": "octo-org/octo-repo",
				"repository_id": "74", "repository_owner": "octo-org", "repository_owner_id": "65", "actor": "octocat", "actor_id": "12", "run_id": "19023", "run_number": "10", "run_attempt": "2",
				"runner_environment": "github-hosted", "job_workflow_ref": "octo-org/ci/.github/workflows/agent.yml@refs/heads/main", "tenant": "another", "scope": "admin"},
			typed: []string{"repository_owner_id", "job_workflow_ref", "run_id"}, missing: []string{"repository_owner_id", "repository_id", "run_id", "jti"},
			want: Caller{Subject: "repo:octo-org/octo-repo:environment:prod", Tenant: "65", Agent: "octo-org/ci/.github/workflows/agent.yml@refs/heads/main", Task: "19023", Run: "19023", TokenID: "9b1d"},
		},
	}
}

func TestPresets(t *testing.T) {
	seen := map[Preset]bool{}
	for _, c := range presetCases() {
		seen[c.preset] = true
		t.Run(string(c.preset)+", "+c.name, func(t *testing.T) { c.run(t) })
	}
	for _, p := range Presets() {
		if !seen[p] || len(p.Settings().Algorithms) == 0 {
			t.Errorf("preset %s is not tried, or sets nothing", p)
		}
	}
	if s := Preset("other").Settings(); s.Claims.Subject != nil || s.Algorithms != nil {
		t.Errorf("an unknown preset sets %+v", s)
	}
}

func (c presetCase) run(t *testing.T) {
	w := newWorld(t, func(i *Issuer) {
		s := c.preset.Settings()
		i.Algorithms, i.Types, i.Require, i.Claims, i.Match = s.Algorithms, s.Types, s.Require, s.Claims, c.match
	}, "RS256")
	// try verifies the token with one claim replaced, nil to leave it out.
	try := func(path string, value any) (*Caller, error) {
		all := obj{"jti": nil, "iat": w.Now().Unix(), "nbf": w.Now().Unix(), "exp": w.Now().Unix() + 3600}
		maps.Copy(all, c.claims)
		if path != "" {
			all = with(all, path, value)
		}
		token, err := w.idp.MintWith(c.header, all, "RS256")
		if err != nil {
			t.Fatal(err)
		}
		return w.v.Verify(ctx, token)
	}
	got, err := try("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Subject != c.want.Subject || got.Tenant != c.want.Tenant || got.Agent != c.want.Agent || got.Task != c.want.Task || got.Run != c.want.Run ||
		got.TokenID != c.want.TokenID || !slices.Equal(got.Scopes, c.want.Scopes) || (got.Scopes == nil) != (c.want.Scopes == nil) || !slices.Equal(got.Roles, c.want.Roles) {
		t.Errorf("got  %+v\nwant %+v", got, c.want)
	}
	for _, path := range c.typed {
		values := []any{5, true, []any{1, "x"}}
		if _, object := c.claims[path].(obj); !object {
			values = append(values, obj{"x": 1})
		}
		for _, value := range values {
			if got, err := try(path, value); err == nil {
				t.Errorf("%s of another type, %v: taken for %+v", path, value, got)
			}
		}
	}
	for _, path := range c.missing {
		if got, err := try(path, nil); err == nil {
			t.Errorf("without %s: taken for %+v", path, got)
		}
	}
	for _, m := range c.match {
		if got, err := try(m.Claim, "66"); err == nil {
			t.Errorf("%s of a stranger: taken for %+v", m.Claim, got)
		}
	}
}

// with returns claims with the one at a path replaced, or left out when value is nil. The first name on the way is the longest that is there.
func with(claims obj, path string, value any) obj {
	out := maps.Clone(claims)
	for name, inner := range claims {
		if rest, ok := cutName(path, name); ok {
			if nested, is := inner.(obj); is {
				out[name] = with(nested, rest, value)
				return out
			}
		}
	}
	if value == nil {
		delete(out, path)
		out[path] = nil
		return out
	}
	out[path] = value
	return out
}

func cutName(path, name string) (rest string, ok bool) {
	if len(path) > len(name)+1 && path[:len(name)] == name && path[len(name)] == '.' {
		return path[len(name)+1:], true
	}
	return "", false
}

// TestEmptyClaimsMeanNone: what is left out is the default, what is empty is no claim.
func TestEmptyClaimsMeanNone(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Claims = ClaimMap{Run: []string{}, Scopes: []string{}, Roles: []string{}} })
	got, err := w.v.Verify(ctx, w.mint(t, map[string]any{"run_id": "r-1", "txn": "x", "scope": "admin", "roles": "admin"}))
	if err != nil || got.Run != "" || got.Scopes != nil || got.Roles != nil || got.Tenant != "acme" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestMatch(t *testing.T) {
	w := newWorld(t, func(i *Issuer) {
		i.Match = []Match{{Claim: "org.id", Values: []string{"7", "8"}}, {Claim: "env", Values: []string{"prod"}}}
	})
	good := map[string]any{"org": obj{"id": "8"}, "env": "prod"}
	if err := w.verify(w.mint(t, good)); err != nil {
		t.Fatal(err)
	}
	for _, over := range []map[string]any{
		{"org": obj{"id": "9"}}, {"org": obj{"id": 8}}, {"org": obj{"id": []string{"8"}}}, {"org": nil}, {"env": nil}, {"env": "Prod"}, {"env": "prod "},
		{"org.id": "8"}, {"ENV": "prod"}, {"org": "8"},
	} {
		bad := maps.Clone(good)
		maps.Copy(bad, over)
		token := w.mint(t, bad)
		wantReason(t, w.verify(token), "claim", token)
	}
	for _, m := range []Match{{}, {Claim: "x"}, {Values: []string{"x"}}, {Claim: "x", Values: []string{""}}} {
		if _, err := New([]Issuer{{URL: w.idp.URL(), Audiences: []string{"a"}, Match: []Match{m}}}); err == nil {
			t.Errorf("accepted %+v", m)
		}
	}
}
