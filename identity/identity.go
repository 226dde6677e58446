package identity

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"time"
)

// Caller is the verified identity behind a call.
type Caller struct {
	Issuer    string
	Subject   string // on whose behalf: the token's sub
	Tenant    string
	Agent     string // who acts: agent_id, act.sub, azp
	Task      string
	Run       string
	Scopes    []string // nil: the token carries no scope claim; empty: it carries an empty one
	Roles     []string
	TokenID   string            // jti, may be empty unless the issuer limits replays
	Expiry    time.Time         // the token's exp, never zero for a verified caller
	TokenHash [sha256.Size]byte // SHA-256 of the token; zero without one

	replay ReplayMode
	end    time.Time // when the token is no longer accepted: Expiry and the leeway
}

// Errors of Verify, to be tested with errors.Is. Any other error is an *InvalidError.
var (
	ErrNoToken     = errors.New("no token")
	ErrUnavailable = errors.New("the issuer's keys or word cannot be had")
)

// InvalidError says why a token is not accepted. Reason is one of a closed set of words, safe to log and to count.
type InvalidError struct{ Reason string } // "malformed", "issuer", "algorithm", "key", "signature", "audience", "expired", "not_yet_valid", "lifetime", "type", "claim", "azp", "bound", "replayed", "inactive"

func (e *InvalidError) Error() string { return "token not accepted: " + e.Reason }

// ClaimMap names the claims that fill a Caller; of several names the first present wins. A nil list stands for the default, an empty one
// for no claim: the field stays empty whatever a token says. "act.sub" walks into objects, as does "kubernetes.io.pod.name", though one of
// the names has a dot in it: every way to split a path is tried, and two that fit are refused.
type ClaimMap struct {
	Subject, Tenant, Agent, Task, Run, Scopes, Roles, TokenID []string
}

// DefaultClaims returns the mapping for what a config leaves out.
func DefaultClaims() ClaimMap {
	return ClaimMap{
		Subject: []string{"sub"},
		Tenant:  []string{"tenant", "tenant_id", "tid", "org_id"},
		Agent:   []string{"agent_id", "act.sub", "azp", "client_id"},
		Task:    []string{"task_id"},
		Run:     []string{"run_id", "txn", "sid"},
		Scopes:  []string{"scope", "scp"},
		Roles:   []string{"roles"},
		TokenID: []string{"jti"},
	}
}

// Match is a claim, by its path as in a ClaimMap, that must be there and be exactly one of some strings.
type Match struct {
	Claim  string
	Values []string
}

// Issuer is one trusted issuer.
type Issuer struct {
	URL               string        // exact iss; discovery is fetched from URL + /.well-known/openid-configuration; https, or http to loopback
	JWKSURL           string        // set: no discovery
	Audiences         []string      // one of them must be in aud; at least one
	Algorithms        []string      // RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; empty: RS256, ES256, EdDSA
	Types             []string      // allowed typ, lower case, "" for none given; empty: jwt, at+jwt, none given
	AuthorizedParties []string      // azp allowlist: when set, azp must be there and in it; empty: azp is not judged
	Leeway            time.Duration // for exp, nbf, iat; 0: 30 s; at most 60 s
	MaxLifetime       time.Duration // longest exp-iat; 0: no limit
	Claims            ClaimMap
	Require           []string       // claims that must be there, by paths as in Claims; null, "" and an empty list or object are not there. sub, aud and exp always must
	Match             []Match        // claims that must have certain values; all of them
	Replay            ReplayMode     // how often a token may be used; needs MaxLifetime, and a TokenID in each token
	Introspection     *Introspection // for opaque tokens, which are else refused; one issuer of a Verifier may have it. Its answers are judged as claims are, but for Algorithms and Types
	TokenFile         string         // with a bearer token for discovery and keys, re-read when it changes; sent to the origin of JWKSURL, or else of URL, and to no other; empty: none
	Client            *http.Client   // fetches keys; nil: one with timeouts and without redirects. Proxy variables of the environment are never used.
	SoftTTL           time.Duration  // refresh keys in the background after this; 0: 1 h
	HardTTL           time.Duration  // refuse keys older than this; 0: 24 h
	MinRefresh        time.Duration  // floor between two fetches; 0: 30 s
}
