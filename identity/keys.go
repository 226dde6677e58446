package identity

import (
	"context"
	"slices"
	"time"
)

// Keys opens what one issuer signed and what is no token of a caller, such as a security event (RFC 8417). It keeps and fetches
// the issuer's keys by the Verifier's rules. Create it with NewKeys. It is safe for concurrent use.
type Keys struct{ issuer *issuer }

// NewKeys returns the keys of one issuer. It fetches nothing. Leeway, MaxLifetime and Claims of c have no effect. Errors: those
// of New.
func NewKeys(c Issuer) (*Keys, error) { return newKeys(c, time.Now) }

func newKeys(c Issuer, now func() time.Time) (*Keys, error) {
	i, err := newIssuer(c, now)
	if err != nil {
		return nil, err
	}
	return &Keys{i}, nil
}

// Open returns the payload of a compact JWS (RFC 7515) of at most 16 KiB: a JSON object without a doubled name at any depth. The
// issuer signed it with one of the allowed algorithms, and its typ, iss and aud are those of the configuration; times and all other
// claims are the caller's to judge. Errors: ErrUnavailable (also when ctx ends while keys are fetched), *InvalidError.
func (k *Keys) Open(ctx context.Context, token string) ([]byte, error) {
	if len(token) > maxToken {
		return nil, invalid("malformed")
	}
	t, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	// As in Verify: only what would be good if it were genuine gets as far as the keys.
	switch {
	case t.iss != k.issuer.url:
		return nil, invalid("issuer")
	case !slices.Contains(k.issuer.algorithms, t.alg):
		return nil, invalid("algorithm")
	case !slices.Contains(k.issuer.types, t.typ):
		return nil, invalid("type")
	}
	if err := k.issuer.checkAudience(t.claims); err != nil {
		return nil, err
	}
	if _, err := k.issuer.verifySignature(ctx, t); err != nil {
		return nil, err
	}
	return t.payload, nil
}

// Status returns the state of the keys. It fetches nothing.
func (k *Keys) Status() KeyStatus { return k.issuer.keys.status(k.issuer.url) }
