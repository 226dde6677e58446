package devissuer

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Paths of the endpoints, below the issuer's URL; also the arguments of Count.
const (
	PathDiscovery  = "/.well-known/openid-configuration"
	PathJWKS       = "/jwks"
	PathToken      = "/token"
	PathRevoke     = "/revoke"
	PathIntrospect = "/introspect"
)

// Options of an Issuer.
type Options struct {
	URL        string           // the iss value and the base of the endpoints, without a trailing slash; Start sets it
	Now        func() time.Time // nil: time.Now
	TTL        time.Duration    // life of a token from the token endpoint; 0: 300 s
	Algorithms []string         // a key is made for each at start; empty: ES256
	TLS        *tls.Config      // used by Start only; nil: plain HTTP

	// Subject verifies subject tokens of another issuer and returns their claims, as an authorization server does that trusts a
	// cluster's service accounts. nil: only tokens of this issuer are exchanged.
	Subject func(token string) (map[string]any, error)
}

// Issuer is an OIDC issuer in memory. All methods are safe for concurrent use. Create it with New or Start.
type Issuer struct {
	url string
	now func() time.Time
	ttl time.Duration

	subject func(token string) (map[string]any, error) // as in Options

	closeOnce sync.Once
	closed    chan struct{}

	mu         sync.Mutex
	keys       map[string]*signingKey // by algorithm
	clients    map[string]Client
	allowed    map[string][]string // scopes by subject
	assertions map[string]time.Time
	revoked    map[string]bool           // by jti
	opaque     map[string]map[string]any // what is answered for a reference token
	counts     map[string]int
	issued     []string
	last       url.Values
	faults     Faults
}

// New returns an issuer with fresh keys. It does not listen: it is an http.Handler.
func New(o Options) (*Issuer, error) {
	if o.URL == "" || strings.HasSuffix(o.URL, "/") {
		return nil, errors.New("devissuer: URL must be set and have no trailing slash")
	}
	i := &Issuer{
		url: o.URL, now: o.Now, ttl: o.TTL, subject: o.Subject, closed: make(chan struct{}),
		keys: map[string]*signingKey{}, clients: map[string]Client{}, allowed: map[string][]string{},
		assertions: map[string]time.Time{}, revoked: map[string]bool{}, counts: map[string]int{},
	}
	if i.now == nil {
		i.now = time.Now
	}
	if i.ttl == 0 {
		i.ttl = 300 * time.Second
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = []string{"ES256"}
	}
	for _, alg := range o.Algorithms {
		if _, err := i.key(alg); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Start returns an issuer that listens on a free loopback port, over TLS when o.TLS is set, and a function that stops
// it and ends its connections. o.URL is ignored.
func Start(o Options) (*Issuer, func(), error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	o.URL = "http://" + ln.Addr().String()
	if o.TLS != nil {
		o.URL = "https://" + ln.Addr().String()
		ln = tls.NewListener(ln, o.TLS)
	}
	i, err := New(o)
	if err != nil {
		_ = ln.Close()
		return nil, nil, err
	}
	srv := &http.Server{Handler: i, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with ErrServerClosed
	}()
	return i, func() { i.Close(); _ = srv.Close(); <-done }, nil
}

// Close releases the requests that Faults.Hang holds. It may be called again.
func (i *Issuer) Close() { i.closeOnce.Do(func() { close(i.closed) }) }

// URL returns the iss value, which is also the base of the endpoints.
func (i *Issuer) URL() string { return i.url }

// TokenURL returns the address of the token endpoint.
func (i *Issuer) TokenURL() string { return i.url + PathToken }

// ServeHTTP serves discovery, the key set, the token endpoint, revocation (RFC 7009) and introspection (RFC 7662).
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.counts[r.URL.Path]++
	f := i.faults
	i.mu.Unlock()
	if f.answer(w, r, i.closed) {
		return
	}
	switch r.URL.Path {
	case PathDiscovery:
		writeJSON(w, http.StatusOK, i.discovery())
	case PathJWKS:
		writeJSON(w, http.StatusOK, i.Keys())
	case PathToken:
		i.serveToken(w, r, f)
	case PathRevoke:
		i.serveRevoke(w, r)
	case PathIntrospect:
		i.serveIntrospect(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (i *Issuer) discovery() map[string]any {
	i.mu.Lock()
	algs := make([]string, 0, len(i.keys))
	for alg := range i.keys {
		algs = append(algs, alg)
	}
	i.mu.Unlock()
	return map[string]any{
		"issuer": i.url, "jwks_uri": i.url + PathJWKS, "token_endpoint": i.url + PathToken, "revocation_endpoint": i.url + PathRevoke,
		"introspection_endpoint":                i.url + PathIntrospect,
		"id_token_signing_alg_values_supported": algs, "grant_types_supported": []string{grantExchange},
		"response_types_supported": []string{}, "subject_types_supported": []string{"public"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "private_key_jwt", "none"},
	}
}

// Count returns the number of requests to path, refused ones included.
func (i *Issuer) Count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[path]
}

// Issued returns the jti of every token that the token endpoint gave out, oldest first.
func (i *Issuer) Issued() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.issued...)
}

// Last returns the form of the newest token request, secrets included, or nil.
func (i *Issuer) Last() url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := url.Values{}
	for k, v := range i.last {
		out[k] = append([]string(nil), v...)
	}
	return out
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone away
}
