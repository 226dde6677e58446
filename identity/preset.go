package identity

import "slices"

// Preset names a kind of issuer whose tokens have a known shape. The zero value is none.
type Preset string

// The presets.
const (
	PresetEntra      Preset = "entra"      // Microsoft Entra ID, access tokens of version 1 and 2
	PresetAuth0      Preset = "auth0"      // both profiles of access tokens
	PresetKeycloak   Preset = "keycloak"   // access tokens of a realm
	PresetOkta       Preset = "okta"       // access tokens of a custom authorization server
	PresetKubernetes Preset = "kubernetes" // tokens of service accounts that are bound to a pod
	PresetSPIFFE     Preset = "spiffe"     // JWT-SVIDs
	PresetGitHub     Preset = "github"     // tokens of GitHub Actions
)

// Presets returns all of them, in the order in which they are documented.
func Presets() []Preset {
	return []Preset{PresetEntra, PresetAuth0, PresetKeycloak, PresetOkta, PresetKubernetes, PresetSPIFFE, PresetGitHub}
}

// Settings returns what a preset sets of an Issuer: Algorithms, Types, Require, all of Claims, and MustMatch. It names only claims
// that the issuer itself fills: one that users or clients may write into their tokens could make them another tenant's. An unknown
// preset sets nothing.
func (p Preset) Settings() PresetSettings {
	s, ok := presets[p]
	if !ok {
		return PresetSettings{}
	}
	s.Algorithms, s.Types, s.Require, s.MustMatch = slices.Clone(s.Algorithms), slices.Clone(s.Types), slices.Clone(s.Require), slices.Clone(s.MustMatch)
	return s
}

// PresetSettings is what a preset sets.
type PresetSettings struct {
	Algorithms, Types, Require []string
	Claims                     ClaimMap
	MustMatch                  []string // claims of which the configuration must pin one by Match: the issuer signs for strangers
}

var none = []string{}

var presets = map[Preset]PresetSettings{
	// sub is another one for each application, oid is not. There is no jti; uti is its like.
	PresetEntra: {
		Algorithms: []string{"RS256"}, Types: []string{"jwt"}, Require: []string{"iat", "tid", "oid", "uti"},
		Claims: ClaimMap{
			Subject: []string{"oid"}, Tenant: []string{"tid"}, Agent: []string{"azp", "appid"}, Task: []string{"task_id"},
			Run: []string{"sid"}, Scopes: []string{"scp"}, Roles: []string{"roles"}, TokenID: []string{"uti"},
		},
	},
	// One profile has azp and the other client_id and jti. A token that an agent exchanged has act.
	PresetAuth0: {
		Algorithms: []string{"RS256", "PS256"}, Types: []string{"jwt", "at+jwt"}, Require: []string{"iat"},
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: []string{"org_id"}, Agent: []string{"act.sub", "azp", "client_id"}, Task: []string{"task_id"},
			Run: none, Scopes: []string{"scope"}, Roles: []string{"permissions"}, TokenID: []string{"jti"},
		},
	},
	PresetKeycloak: {
		Algorithms: []string{"RS256", "PS256", "ES256", "EdDSA"}, Types: []string{"jwt", "at+jwt"}, Require: []string{"iat", "jti", "azp"},
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: []string{"tenant"}, Agent: []string{"act.sub", "azp"}, Task: []string{"task_id"},
			Run: []string{"sid"}, Scopes: []string{"scope"}, Roles: []string{"realm_access.roles"}, TokenID: []string{"jti"},
		},
	},
	PresetOkta: {
		Algorithms: []string{"RS256"}, Types: []string{"jwt", "at+jwt", ""}, Require: []string{"iat", "jti", "cid"},
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: []string{"tenant"}, Agent: []string{"act.sub", "cid"}, Task: []string{"task_id"},
			Run: none, Scopes: []string{"scp"}, Roles: []string{"groups"}, TokenID: []string{"jti"},
		},
	},
	// Tokens of old Secrets end never and have flat names, and a token without a pod is good after every pod has gone.
	PresetKubernetes: {
		Algorithms: []string{"RS256", "ES256", "ES384", "ES512"}, Types: []string{"jwt", ""},
		Require: []string{"iat", "kubernetes.io.namespace", "kubernetes.io.serviceaccount.name", "kubernetes.io.pod.uid"},
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: []string{"kubernetes.io.namespace"}, Agent: []string{"kubernetes.io.serviceaccount.name"},
			Task: []string{"kubernetes.io.pod.name"}, Run: []string{"kubernetes.io.pod.uid"}, Scopes: none, Roles: none, TokenID: []string{"jti"},
		},
	},
	// JWT-SVID, section 3: everything but sub, aud and exp is left to whoever issues them.
	PresetSPIFFE: {
		Algorithms: []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"}, Types: []string{"jwt", "jose", ""},
		Require: none,
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: none, Agent: []string{"sub"}, Task: none, Run: none, Scopes: none, Roles: none, TokenID: []string{"jti"},
		},
	},
	// It signs for every repository of GitHub and for whatever audience a workflow asks.
	PresetGitHub: {
		Algorithms: []string{"RS256"}, Types: []string{"jwt"}, Require: []string{"iat", "jti", "repository_id", "run_id", "job_workflow_ref"},
		Claims: ClaimMap{
			Subject: []string{"sub"}, Tenant: []string{"repository_owner_id"}, Agent: []string{"job_workflow_ref"}, Task: []string{"run_id"},
			Run: []string{"run_id"}, Scopes: none, Roles: none, TokenID: []string{"jti"},
		},
		MustMatch: []string{"repository_owner_id", "repository_id"},
	},
}
