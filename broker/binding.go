package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Binding says which credential goes to which targets for which tools. Exactly one of its kinds is set, which kinds lists, but for MTLS.
type Binding struct {
	Name              string
	Tools             []string
	Targets           []string // canonical "host:port", exact
	TokenExchange     *TokenExchange
	ClientCredentials *ClientCredentials
	Static            *Static
	Placeholders      *Placeholders
	GitHubApp         *GitHubApp
	Vault             *Vault
	AWS               *AWS
	GCP               *GCP
	IDJAG             *IDJAG
	MTLS              *MTLS // alone, or beside one of the others
}

// settings are those of one kind of credential. Each kind is a file of its own.
type settings interface {
	kind() string   // as in records
	name() string   // as in the config
	copy() settings // out of the reach of whoever made it
	bind(bd *Binding, in *opening) (*bound, error)
}

// opening is what bindings share while a broker is made.
type opening struct {
	endpoints endpoints
	proofs    *proofs // keys of callers
	now       func() time.Time
}

// kinds returns the settings that are set.
func (b *Binding) kinds() (set []settings) {
	if b.TokenExchange != nil {
		set = append(set, b.TokenExchange)
	}
	if b.ClientCredentials != nil {
		set = append(set, b.ClientCredentials)
	}
	if b.Static != nil {
		set = append(set, b.Static)
	}
	if b.Placeholders != nil {
		set = append(set, b.Placeholders)
	}
	if b.GitHubApp != nil {
		set = append(set, b.GitHubApp)
	}
	if b.Vault != nil {
		set = append(set, b.Vault)
	}
	if b.AWS != nil {
		set = append(set, b.AWS)
	}
	if b.GCP != nil {
		set = append(set, b.GCP)
	}
	if b.IDJAG != nil {
		set = append(set, b.IDJAG)
	}
	if b.MTLS != nil && len(set) == 0 { // the last, since it may stand beside any other
		set = append(set, b.MTLS)
	}
	return set
}

// Kind returns the kind's name as records have it, such as "token_exchange"; empty without one.
func (b *Binding) Kind() string {
	if set := b.kinds(); len(set) == 1 {
		return set[0].kind()
	}
	return ""
}

// TokenExchange is RFC 8693 at a token endpoint.
type TokenExchange struct {
	TokenURL         string // https; http only at a literal loopback address
	RevocationURL    string // where dropped tokens are revoked (RFC 7009); empty: nowhere
	Audience         string
	Resource         string   // absolute URI without fragment (RFC 8707)
	Target           Target   // which of them are sent; a JWT's aud is compared with both all the same
	Scopes           []string // empty: the manifest's requiredScopes
	ClientAuth       ClientAuth
	Impersonate      bool          // no actor is sent, and the token may do as the caller; else there must be an actor
	ActorTokenFile   string        // the workload's token
	SubjectTokenType string        // empty: urn:ietf:params:oauth:token-type:jwt
	ActorTokenType   string        // empty: urn:ietf:params:oauth:token-type:jwt
	GrantType        string        // empty: that of RFC 8693
	RequestedType    string        // requested_token_type, and the only issued_token_type taken; empty: an access token, and a JWT is taken as well
	Parameters       []Parameter   // of the form, besides those that this package sets
	CAFile           string        // roots for TokenURL; empty: the system's
	DPoP             bool          // the token is bound to a key of the caller's that only this process has (RFC 9449)
	MaxTTL           time.Duration // cap of a cached token's life; 0: 15 min
	Timeout          time.Duration // of one attempt; 0: 10 s
}

// Target is by which parameters a token endpoint is told for whom the token is.
type Target string

// What an issuer may want to be told (RFC 8693 section 2.1, RFC 8707 section 2). The zero value is whatever is set.
const (
	TargetAudience Target = "audience"
	TargetResource Target = "resource"
	TargetBoth     Target = "both"
	TargetScope    Target = "scope" // neither: the scopes name the API
)

// Parameter is one more parameter of the form, such as Auth0's connection. Its value is no secret.
type Parameter struct{ Name, Value string }

// ClientAuth is how the sidecar authenticates to a token endpoint.
type ClientAuth struct {
	Method      string // none, client_secret_basic, client_secret_post, private_key_jwt, workload_token, tls_client_auth
	ClientID    string
	SecretFile  string // client_secret_*
	KeyFile     string // private_key_jwt: PEM, RSA or P-256/384/521 or Ed25519
	TokenFile   string // workload_token: the token that is the assertion
	CertFile    string // tls_client_auth: PEM, chain from the leaf up
	CertKeyFile string // tls_client_auth: PEM
	KeyID       string // kid header; empty: none
	Audience    string // aud of the assertion; empty: TokenURL
}

// newBound checks a binding and makes the issuer of its credentials. It keeps nothing that its caller could change.
func newBound(bd Binding, in *opening) (*bound, error) {
	switch {
	case bd.Name == "":
		return nil, errors.New("a binding needs a name")
	case len(bd.Tools) == 0 || slices.Contains(bd.Tools, ""):
		return nil, errors.New("tools must name at least one tool, and none may be empty")
	case len(bd.Targets) == 0:
		return nil, errors.New("targets must name at least one host:port")
	}
	set := bd.kinds()
	if len(set) != 1 {
		var names []string
		for _, s := range set {
			names = append(names, s.name())
		}
		return nil, fmt.Errorf("%d kinds of credential are set (%s), not one", len(set), strings.Join(names, ", "))
	}
	own := &Binding{Name: bd.Name, Tools: slices.Clone(bd.Tools), Targets: slices.Clone(bd.Targets)}
	bo, err := set[0].copy().bind(own, in)
	if err != nil {
		return nil, err
	}
	bo.Binding = own
	return bo, bo.certify(&bd)
}

func (c *TokenExchange) kind() string { return "token_exchange" }
func (c *TokenExchange) name() string { return "tokenExchange" }

func (c *TokenExchange) copy() settings {
	x := *c
	x.Scopes, x.Parameters = slices.Clone(x.Scopes), slices.Clone(x.Parameters)
	return &x
}

func (c *TokenExchange) bind(bd *Binding, in *opening) (*bound, error) {
	bd.TokenExchange = c
	c.SubjectTokenType = orElse(c.SubjectTokenType, typeJWT)
	c.ActorTokenType = orElse(c.ActorTokenType, typeJWT)
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is, err := newExchanger(bd.Name, *c, in)
	if err != nil {
		return nil, err
	}
	at := place{c.RevocationURL, c.CAFile, c.ClientAuth.CertFile, c.ClientAuth.CertKeyFile}
	return is.bound(is, at, bound{maxTTL: c.MaxTTL, deadline: 2*c.Timeout + maxRetryWait}, in)
}

func (c *TokenExchange) validate() error {
	if err := checkURL("tokenURL", c.TokenURL); err != nil {
		return err
	}
	if c.Resource != "" {
		u, err := url.Parse(c.Resource)
		if err != nil || !u.IsAbs() || strings.Contains(c.Resource, "#") {
			return errors.New("resource must be an absolute URI without a fragment")
		}
	}
	if _, ok := joinScopes(c.Scopes); !ok {
		return errors.New("scopes holds what is no scope")
	}
	switch {
	case c.Impersonate && c.ActorTokenFile != "":
		return errors.New("an impersonation has no actor")
	case !c.Impersonate && c.ActorTokenFile == "":
		return errors.New("a delegation needs an actor: a token file of the workload's")
	case slices.Contains(neverInjected, c.RequestedType):
		return errors.New("requestedTokenType names a kind of token that no upstream may be sent; leave it out for an access token")
	}
	if err := c.Target.check(c.Audience, c.Resource, c.Scopes); err != nil {
		return err
	}
	if err := checkParameters(c.Parameters); err != nil {
		return err
	}
	if c.MaxTTL < 0 || c.Timeout < 0 {
		return errors.New("maxTTL and timeout must not be negative")
	}
	return nil
}

// neverInjected are tokens for the issuer or for inside one trust domain; an upstream that saw one could use it elsewhere.
var neverInjected = []string{
	"urn:ietf:params:oauth:token-type:refresh_token", "urn:ietf:params:oauth:token-type:id_token",
	"urn:ietf:params:oauth:token-type:txn_token", "urn:ietf:params:oauth:token-type:id-jag",
}

// check refuses a target that is not there: the token would be for everything that the issuer serves.
func (t Target) check(audience, resource string, scopes []string) error {
	switch t {
	case "":
		return nil
	case TargetAudience, TargetResource, TargetBoth:
		if t != TargetResource && audience == "" || t != TargetAudience && resource == "" {
			return fmt.Errorf("target %s needs what it names", t)
		}
		return nil
	case TargetScope:
		if len(scopes) == 0 {
			return errors.New("target scope needs scopes: nothing else says for whom the token is")
		}
		return nil
	}
	return fmt.Errorf("target %q is not one of audience, resource, both, scope", t)
}

// set adds the parameters that the issuer wants to be told.
func (t Target) set(form url.Values, audience, resource string) {
	if audience != "" && (t == "" || t == TargetAudience || t == TargetBoth) {
		form.Set("audience", audience)
	}
	if resource != "" && (t == "" || t == TargetResource || t == TargetBoth) {
		form.Set("resource", resource)
	}
}

// ownParameters are those that this package decides; a second value beside them would be a way around its checks.
var ownParameters = []string{
	"grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
	"audience", "resource", "scope", "client_id", "client_secret", "client_assertion", "client_assertion_type", "assertion",
}

func checkParameters(list []Parameter) error {
	seen := make(map[string]bool)
	for _, p := range list {
		switch {
		case p.Name == "" || p.Value == "":
			return errors.New("a parameter needs a name and a value")
		case slices.Contains(ownParameters, p.Name):
			return fmt.Errorf("parameters: %q has a setting of its own", p.Name)
		case seen[p.Name]:
			return fmt.Errorf("parameters: %q is set twice", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// checkURL refuses what would send a secret in the clear or to a place that the text does not show. Its error does
// not quote the URL, which may hold a password.
func checkURL(key, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return errors.New(key + " is not an absolute URL")
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New(key + " must have neither user info nor a fragment")
	}
	switch u.Scheme {
	case "https":
		return nil
	case "http":
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.IsLoopback() {
			return nil
		}
		return errors.New(key + " must be https (http only at a loopback address)")
	}
	return errors.New(key + " must be https")
}

// joinScopes sorts, removes duplicates and joins with spaces; false when one is no scope-token (RFC 6749, section 3.3),
// which could otherwise smuggle in another. It does not change list.
func joinScopes(list []string) (string, bool) {
	for _, s := range list {
		if !isScope(s) {
			return "", false
		}
	}
	if !strictlySorted(list) {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
	}
	return strings.Join(list, " "), true
}

func strictlySorted(list []string) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

func isScope(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// fileProblem names the setting and the file of an error at load.
func fileProblem(setting, path string, err error) error {
	return fmt.Errorf("%s %s: %w", setting, path, err)
}
