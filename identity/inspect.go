package identity

import "fmt"

// Inspect maps a token to the caller that Verify would return if the signature were good, without checking it and without
// asking anybody. It is for explaining a decision, never for taking one. Errors: ErrNoToken, *InvalidError, ErrUnavailable for an opaque
// token of an issuer that has introspection.
func (v *Verifier) Inspect(token string) (*Caller, error) {
	if token == "" {
		return nil, ErrNoToken
	}
	if len(token) > maxToken {
		return nil, invalid("malformed")
	}
	if v.opaque != nil && isOpaque(token) {
		return nil, fmt.Errorf("%w: an opaque token, which only its issuer can read", ErrUnavailable)
	}
	parts, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	iss := v.issuers[parts.iss]
	if iss == nil {
		return nil, invalid("issuer")
	}
	return iss.check(parts, v.now())
}
