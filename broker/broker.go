package broker

import (
	"context"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Subject is for whom a credential is asked: the caller and the tool of one call.
type Subject struct {
	Issuer, Subject, Tenant, Agent, Task, Run string
	TokenID                                   string
	Token                                     redact.Secret // the caller's token, the subject_token of an exchange; zero when there is none
	Expiry                                    time.Time     // of Token
	Tool, Version                             string
	RequiredScopes                            []string // the manifest's
}

// Key is every input that chose a credential; the cache is keyed by it. Slices are sorted and joined with spaces, which
// no scope may contain (RFC 6749, section 3.3).
type Key struct {
	Binding, Generation                       string // Generation: the configuration revision
	Issuer, Subject, Tenant, Agent, Task, Run string
	TokenID, TokenHash, Workload              string // TokenHash: SHA-256 of the subject token; Workload: SHA-256 of the actor token
	Tool, Version                             string
	Audience, Resource, Scopes                string
}

// Binding says which credential goes to which targets for which tools. Exactly one of its kinds is set.
type Binding struct {
	Name          string
	Tools         []string
	Targets       []string // canonical "host:port", exact
	TokenExchange *TokenExchange
	Static        *Static
}

// Kind returns "token_exchange" or "static".
func (b *Binding) Kind() string { panic("contract") }

// TokenExchange is RFC 8693 at a token endpoint.
type TokenExchange struct {
	TokenURL         string
	Audience         string
	Resource         string   // absolute URI without fragment (RFC 8707)
	Scopes           []string // empty: the manifest's requiredScopes
	ClientAuth       ClientAuth
	ActorTokenFile   string        // the workload's token; empty: no actor
	SubjectTokenType string        // empty: urn:ietf:params:oauth:token-type:jwt
	ActorTokenType   string        // empty: urn:ietf:params:oauth:token-type:jwt
	CAFile           string        // roots for TokenURL; empty: the system's
	MaxTTL           time.Duration // cap of a cached token's life; 0: 15 min
	Timeout          time.Duration // of one attempt; 0: 10 s
}

// ClientAuth is how the sidecar authenticates to a token endpoint.
type ClientAuth struct {
	Method     string // none, client_secret_basic, client_secret_post, private_key_jwt
	ClientID   string
	SecretFile string // client_secret_*
	KeyFile    string // private_key_jwt: PEM, RSA or P-256/384/521 or Ed25519
	KeyID      string // kid header; empty: none
	Audience   string // aud of the assertion; empty: TokenURL
}

// Static is a secret from a file, re-read when it changes.
type Static struct {
	File   string
	Header string // empty: Authorization
	Prefix string // put before the value, for example "Bearer "
}

// Ref describes a credential without its value: what a record may say of it.
type Ref struct {
	Binding, Kind, Audience string
	Scopes                  []string
	Expires                 time.Time // zero: unknown
	Cached                  bool
}

// Credential can be put on a request. It is immutable.
type Credential struct {
	ref    Ref
	header string
	value  redact.Secret
}

// Ref returns the description.
func (c *Credential) Ref() Ref { return c.ref }

// Apply removes every copy of the credential's header from the request, in any spelling that servers fold together
// (case, underscore for hyphen), and sets it. The request must be the outgoing one.
func (c *Credential) Apply(out *http.Request) { panic("contract") }

// Reason is why a credential could not be had; a closed set, safe to log and to count.
type Reason string

// Error says which binding failed and why, and never what the secret or the endpoint's answer was.
type Error struct {
	Binding    string
	Reason     Reason
	Temporary  bool          // true: credential_unavailable, false: credential_denied
	RetryAfter time.Duration // when Temporary, as far as known
}

func (e *Error) Error() string { panic("contract") }

// Issuer gives a credential for a subject. Implementations do not cache; they return *Error only, finish when ctx
// ends, and are safe for concurrent use.
type Issuer interface {
	Issue(ctx context.Context, s Subject) (*Credential, error)
	// Key fills the parts of the cache key that this issuer's configuration and files decide.
	Key(s Subject) (Key, error)
}

// Options of a Broker.
type Options struct {
	Generation string      // part of every cache key
	CacheSize  int         // 0: 4096
	Observe    func(Event) // called for every exchange and cache event; may be nil
}

// Event is one thing to count.
type Event struct {
	Binding  string
	Name     string        // "exchange" or "cache"
	Result   string        // exchange: "ok" or the Reason; cache: "hit", "miss", "negative", "evict", "drop"
	Duration time.Duration // exchange only
}

// Broker finds bindings and gives credentials. Create it with New.
type Broker struct{ _ struct{} }

// New returns a broker. It reads key files, so that a bad one is an error at load; it contacts nothing.
func New(bindings []Binding, o Options) (*Broker, error) { panic("contract") }

// Find returns the binding of tool for a canonical target, or nil.
func (b *Broker) Find(tool, host string, port uint16) *Binding { panic("contract") }

// Credential returns the credential of a binding for s, from the cache or from its issuer. Concurrent calls for one
// key share one request, which outlives any single caller's ctx. A token is cached until its expiry less a skew, never past the
// subject token's; failures are cached for seconds. Errors: *Error, or ctx's.
func (b *Broker) Credential(ctx context.Context, bd *Binding, s Subject) (*Credential, error) {
	panic("contract")
}

// Drop removes the cached credentials whose key matches, and keeps those being fetched now from being stored. It
// returns how many were removed.
func (b *Broker) Drop(match func(Key) bool) int { panic("contract") }
