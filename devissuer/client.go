package devissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Client may use the token endpoint. It authenticates with what it has: a secret (client_secret_basic or
// client_secret_post) or a key (private_key_jwt).
type Client struct {
	ID        string
	Secret    string
	PublicKey crypto.PublicKey // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	Public    bool             // needs neither
	Scopes    []string         // that it may ask for; empty: none
	Audiences []string         // values of audience and resource that it may ask for; empty: none
}

// RegisterClient adds or replaces a client.
func (i *Issuer) RegisterClient(c Client) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients[c.ID] = c
}

// AllowScopes limits what is granted for tokens whose sub is subject, whatever the client may ask for. Without a limit the client's
// scopes decide; with an empty one nothing is granted.
func (i *Issuer) AllowScopes(subject string, scopes ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.allowed[subject] = append([]string{}, scopes...)
}

const assertionJWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// authenticate returns the client of a request (RFC 6749, section 2.3; RFC 7523). A request that uses two methods is refused.
func (i *Issuer) authenticate(r *http.Request) (Client, bool) {
	id, secret, basic := r.BasicAuth()
	assertion := r.PostForm.Get("client_assertion")
	post := r.PostForm.Get("client_secret")
	switch {
	case basic && assertion == "" && post == "":
		id, err1 := url.QueryUnescape(id) // form-encoded before base64 (RFC 6749, section 2.3.1)
		secret, err2 := url.QueryUnescape(secret)
		if err1 != nil || err2 != nil || (r.PostForm.Has("client_id") && r.PostForm.Get("client_id") != id) {
			return Client{}, false
		}
		return i.bySecret(id, secret)
	case !basic && assertion == "" && post != "":
		return i.bySecret(r.PostForm.Get("client_id"), post)
	case !basic && assertion != "" && post == "":
		return i.byAssertion(r.PostForm, assertion)
	case !basic && assertion == "" && post == "":
		c, ok := i.client(r.PostForm.Get("client_id"))
		return c, ok && c.Public
	}
	return Client{}, false
}

func (i *Issuer) client(id string) (Client, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c, ok := i.clients[id]
	return c, ok
}

func (i *Issuer) bySecret(id, secret string) (Client, bool) {
	c, ok := i.client(id)
	return c, ok && c.Secret != "" && subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) == 1
}

func algorithmsFor(key crypto.PublicKey) []jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		return []jose.SignatureAlgorithm{map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}[key.Curve.Params().BitSize]}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// byAssertion checks private_key_jwt (RFC 7523, section 3): iss = sub = client, aud is us, at most five minutes to live, jti unused.
func (i *Issuer) byAssertion(form url.Values, assertion string) (Client, bool) {
	if form.Get("client_assertion_type") != assertionJWT {
		return Client{}, false
	}
	var claims struct {
		Iss, Sub, JTI string
		Aud           any
		Exp           float64
	}
	c, payload, ok := i.openAssertion(assertion)
	if !ok || json.Unmarshal(payload, &claims) != nil {
		return Client{}, false
	}
	now := i.now()
	exp := time.Unix(int64(claims.Exp), 0)
	mine := []string{i.url, i.url + PathToken, i.url + PathRevoke}
	aud := list(claims.Aud)
	switch {
	case claims.Iss != c.ID, claims.Sub != c.ID, form.Has("client_id") && form.Get("client_id") != c.ID:
		return Client{}, false
	case len(aud) != 1 || !slices.Contains(mine, aud[0]):
		return Client{}, false
	case !now.Before(exp) || exp.After(now.Add(5*time.Minute)):
		return Client{}, false
	}
	return c, i.useOnce(c.ID+" "+claims.JTI, claims.JTI, exp, now)
}

// openAssertion finds the client by the assertion's unverified iss and checks the signature with its key.
func (i *Issuer) openAssertion(assertion string) (Client, []byte, bool) {
	all := slices.Concat(algorithmsFor((*rsa.PublicKey)(nil)), []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA})
	jws, err := jose.ParseSignedCompact(assertion, all)
	if err != nil {
		return Client{}, nil, false
	}
	var claims struct{ Iss string }
	if json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &claims) != nil {
		return Client{}, nil, false
	}
	c, ok := i.client(claims.Iss)
	if !ok || c.PublicKey == nil || !slices.Contains(algorithmsFor(c.PublicKey), jose.SignatureAlgorithm(jws.Signatures[0].Header.Algorithm)) {
		return Client{}, nil, false
	}
	payload, err := jws.Verify(c.PublicKey)
	return c, payload, err == nil
}

func (i *Issuer) useOnce(key, jti string, exp, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, e := range i.assertions {
		if e.Before(now) {
			delete(i.assertions, k)
		}
	}
	if _, used := i.assertions[key]; used || jti == "" {
		return false
	}
	i.assertions[key] = exp
	return true
}
