package identity

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	fetchTimeout = 10 * time.Second
	maxBody      = 256 << 10
	minRSA       = 2048 // bits (RFC 7518, section 3.3)
	maxRSA       = 8192 // bits; what a verification costs grows with the square
)

// fetch asks the issuer for its keys. Discovery is asked every time, so that an issuer may move its keys. The errors quote nothing of an
// answer and no URL.
func (s *keySet) fetch(ctx context.Context) (set []jose.JSONWebKey, err error) {
	// This goroutine has no caller whose recover could catch a parser's panic on hostile bytes, and it would end the process.
	defer func() {
		if recover() != nil {
			set, err = nil, errors.New("the answer cannot be read")
		}
	}()
	from := s.jwksURL
	if from == "" {
		if from, err = s.discover(ctx); err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
	}
	body, err := s.read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if set, err = parseKeys(body); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	return set, nil
}

// discover returns jwks_uri (OpenID Connect Discovery 1.0, section 4).
func (s *keySet) discover(ctx context.Context) (string, error) {
	body, err := s.read(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	doc, err := parseObject(body)
	if err != nil {
		return "", err
	}
	if name, ok := asString(doc["issuer"]); !ok || name != s.issuer {
		return "", errors.New("it is of another issuer")
	}
	uri, ok := asString(doc["jwks_uri"])
	if !ok {
		return "", errors.New("no jwks_uri")
	}
	// An issuer that is reached over TLS must not send us where anybody can answer, nor to this host's own services.
	if err := checkKeyURL(uri, strings.HasPrefix(s.issuer, "http://")); err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	return uri, nil
}

func (s *keySet) read(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	// The type of a key set is a third one (RFC 7517, section 8.5.2), and a Kubernetes API server answers 406 where it is not listed.
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	if err := s.authorize(req); err != nil {
		return nil, err
	}
	return answerTo(s.client, req, maxBody)
}

// answerTo returns the body of a 200 answer of at most limit bytes. Its errors quote nothing of the request, nor of the answer.
func answerTo(client *http.Client, req *http.Request, limit int64) ([]byte, error) {
	res, err := client.Do(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, errors.New("no answer in time")
		}
		return nil, errors.New("no answer")
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, errors.New("the answer broke off")
	case int64(len(body)) > limit:
		return nil, errors.New("the answer is too large")
	}
	return body, nil
}

// authorize adds the token for those who show keys only to whom they know, such as the API server of a cluster. Discovery may name
// another place for the keys, which gets no token.
func (s *keySet) authorize(req *http.Request) error {
	if s.token == nil || originOf(req.URL.String()) != s.origin {
		return nil
	}
	token, err := s.token.Token()
	if err != nil || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token file has no usable token")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// originOf returns scheme, host and port of a URL (RFC 6454, section 4), empty where it has none.
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// parseKeys returns the usable keys of a JWK set (RFC 7517, section 5), which says to ignore those not understood. None is an error:
// an empty answer must not take good keys away.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	doc, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	raw, ok := elements(doc["keys"])
	if !ok {
		return nil, errors.New("no list of keys")
	}
	var set []jose.JSONWebKey
	for _, r := range raw {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(r) == nil && mayVerify(r) && isStrong(k.Key) {
			set = append(set, k)
		}
	}
	if len(set) == 0 {
		return nil, errors.New("no usable key")
	}
	return set, nil
}

// mayVerify reads use and key_ops (RFC 7517, sections 4.2 and 4.3). SPIFFE bundles say "jwt-svid".
func mayVerify(raw jsontext.Value) bool {
	o, err := parseObject(raw)
	if err != nil {
		return false
	}
	if o["use"] != nil {
		if use, _ := asString(o["use"]); use != "sig" && use != "jwt-svid" {
			return false
		}
	}
	if o["key_ops"] != nil {
		if ops, _ := asStrings(o["key_ops"]); !slices.Contains(ops, "verify") {
			return false
		}
	}
	return true
}

// isStrong accepts public keys only: a secret or a private key that is published signs for everybody.
func isStrong(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// fingerprint names a set of keys by all that a verification depends on, in the order of the answer.
func fingerprint(set []jose.JSONWebKey) string {
	var b strings.Builder
	for _, k := range set {
		print, err := k.Thumbprint(crypto.SHA256) // RFC 7638
		if err != nil {
			continue // isStrong let through only what has one
		}
		fmt.Fprintf(&b, "%q %q %s\n", k.KeyID, k.Algorithm, base64.RawURLEncoding.EncodeToString(print))
	}
	return b.String()
}
