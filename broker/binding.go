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

// Binding says which credential goes to which targets for which tools. Exactly one of its kinds is set.
type Binding struct {
	Name          string
	Tools         []string
	Targets       []string // canonical "host:port", exact
	TokenExchange *TokenExchange
	Static        *Static
}

// Kind returns "token_exchange" or "static".
func (b *Binding) Kind() string {
	switch {
	case b.TokenExchange != nil:
		return "token_exchange"
	case b.Static != nil:
		return "static"
	}
	return ""
}

// TokenExchange is RFC 8693 at a token endpoint.
type TokenExchange struct {
	TokenURL         string // https; http only at a literal loopback address
	RevocationURL    string // where dropped tokens are revoked (RFC 7009); empty: nowhere
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

// clone keeps the broker's bindings out of the reach of whoever made them.
func (b Binding) clone() *Binding {
	b.Tools, b.Targets = slices.Clone(b.Tools), slices.Clone(b.Targets)
	if b.TokenExchange != nil {
		x := *b.TokenExchange
		x.Scopes = slices.Clone(x.Scopes)
		b.TokenExchange = &x
	}
	if b.Static != nil {
		s := *b.Static
		b.Static = &s
	}
	return &b
}

func (b *Binding) validate() error {
	switch {
	case b.Name == "":
		return errors.New("a binding needs a name")
	case len(b.Tools) == 0 || slices.Contains(b.Tools, ""):
		return errors.New("tools must name at least one tool, and none may be empty")
	case len(b.Targets) == 0:
		return errors.New("targets must name at least one host:port")
	case b.TokenExchange == nil && b.Static == nil:
		return errors.New("neither tokenExchange nor static is set")
	case b.TokenExchange != nil && b.Static != nil:
		return errors.New("tokenExchange and static are both set")
	}
	return nil
}

// newBound makes the issuer of a binding.
func newBound(bd *Binding, eps endpoints, now func() time.Time) (*bound, error) {
	if bd.Static != nil {
		is, err := newStatic(bd.Name, *bd.Static)
		if err != nil {
			return nil, err
		}
		return &bound{Binding: bd, issuer: is}, nil
	}
	c := *bd.TokenExchange
	c.SubjectTokenType = orElse(c.SubjectTokenType, typeJWT)
	c.ActorTokenType = orElse(c.ActorTokenType, typeJWT)
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is, err := newExchanger(bd.Name, c, eps, now)
	if err != nil {
		return nil, err
	}
	revoker, err := newRevoker(bd.Name, &c, eps, is.auth, now)
	if err != nil {
		return nil, err
	}
	return &bound{Binding: bd, issuer: is, revoker: revoker, exchange: true, maxTTL: c.MaxTTL, deadline: 2*c.Timeout + maxRetryWait}, nil
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
	if c.MaxTTL < 0 || c.Timeout < 0 {
		return errors.New("maxTTL and timeout must not be negative")
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
