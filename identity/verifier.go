package identity

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// maxToken is the size in bytes above which a token is refused before anything looks inside.
const maxToken = 16 << 10

// Verifier verifies tokens of several issuers. Create it with New. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer // by the exact iss
	order   []*issuer          // as configured
	opaque  *introspector      // of the issuer that has one; nil: no opaque token is accepted
	cache   *cache
	now     func() time.Time
}

// New returns a verifier. It fetches nothing: an issuer that is down at start is not fatal. Errors: no audience, an HS* or none
// algorithm or an unknown one, a duplicate issuer, a second one with introspection, a leeway over 60 s, a URL that keys must not be fetched from.
func New(issuers []Issuer) (*Verifier, error) { return newVerifier(issuers, time.Now) }

func newVerifier(issuers []Issuer, now func() time.Time) (*Verifier, error) {
	v := &Verifier{issuers: map[string]*issuer{}, cache: newCache(), now: now}
	for _, config := range issuers {
		iss, err := newIssuer(config, now)
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", config.URL, err)
		}
		if v.issuers[config.URL] != nil {
			return nil, fmt.Errorf("issuer %q: given twice", config.URL)
		}
		if iss.opaque != nil && v.opaque != nil {
			return nil, fmt.Errorf("issuer %q: another one has introspection already, and nothing tells whose an opaque token is", config.URL)
		}
		v.opaque = cmp.Or(v.opaque, iss.opaque)
		v.issuers[config.URL] = iss
		v.order = append(v.order, iss)
	}
	return v, nil
}

func invalid(reason string) error { return &InvalidError{Reason: reason} }

// Verify checks the token and returns its caller. The result may come from a bounded cache of verified tokens, whose
// entries live at most a minute and never past the token's expiry and leeway. The Caller returned is shared: it must not be changed.
// Errors: ErrNoToken, ErrUnavailable (also when ctx ends while keys are fetched), *InvalidError.
func (v *Verifier) Verify(ctx context.Context, token string) (*Caller, error) {
	if token == "" {
		return nil, ErrNoToken
	}
	if len(token) > maxToken {
		return nil, invalid("malformed")
	}
	now := v.now()
	key := cacheKey(token)
	if caller := v.cache.get(key, now); caller != nil {
		return caller, nil
	}
	if v.opaque != nil && isOpaque(token) {
		return v.opaque.verify(ctx, key, token)
	}
	// The issuer is chosen by the iss that the token claims, before its signature is checked: a token of an unknown
	// or of another issuer must not make us fetch keys.
	parts, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	iss := v.issuers[parts.iss]
	if iss == nil {
		return nil, invalid("issuer")
	}
	caller, err := iss.check(parts, now)
	if err != nil {
		return nil, err
	}
	generation, err := iss.verify(ctx, parts)
	if err != nil {
		return nil, err
	}
	caller.TokenHash = key
	v.cache.put(key, &cached{caller: caller, keys: iss.keys, generation: generation, until: earlier(now.Add(maxCached), caller.end)})
	return caller, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Ready fetches keys where none are held and returns an error naming the first issuer without keys. One that has introspection may do
// without.
func (v *Verifier) Ready(ctx context.Context) error {
	for _, iss := range v.order {
		iss.keys.freshen() // all at once, so that a slow issuer does not hold up the others
	}
	for _, iss := range v.order {
		if iss.opaque != nil {
			continue
		}
		if _, err := iss.keys.get(ctx, anyKey); err != nil {
			return fmt.Errorf("issuer %q: %w", iss.url, err)
		}
	}
	return nil
}

// KeyStatus describes the keys held for one issuer.
type KeyStatus struct {
	Issuer  string
	Keys    int       // usable ones
	Fetched time.Time // zero: never
	Err     error     // why the newest fetch failed, without any of the answer's text; nil when it did not
}

// Status returns the state of every issuer's keys, in the order of the configuration. It fetches nothing.
func (v *Verifier) Status() []KeyStatus {
	out := make([]KeyStatus, 0, len(v.order))
	for _, iss := range v.order {
		out = append(out, iss.keys.status(iss.url))
	}
	return out
}
