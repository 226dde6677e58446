package identity

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxClaim is the longest mapped claim in bytes; names end up in logs, keys and labels.
const maxClaim = 256

// typeTxnToken is the typ of a transaction token, and txnClaims what it must carry, whoever issued it
// (draft-ietf-oauth-transaction-tokens-10).
const typeTxnToken = "txntoken+jwt"

var txnClaims = []string{"iat", "exp", "txn", "sub", "scope", "req_wl"}

// endOfTime is the year 9999, after which times do not format (RFC 3339).
var endOfTime = float64(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).Unix())

// registered are the names that this package reads whatever the mapping says, and those that services behind us do.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "nonce", "at_hash", "cnf", "_claim_names", "_claim_sources"}

func guardedNames(m ClaimMap, require []string, match []Match) []string {
	names := slices.Concat(registered, m.Subject, m.Tenant, m.Agent, m.Task, m.Run, m.Scopes, m.Roles, m.TokenID, require)
	for _, m := range match {
		names = append(names, m.Claim)
	}
	for _, path := range names {
		for at, c := range path {
			if c == '.' {
				names = append(names, path[:at])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// check is the strict pass over header and claims, before the signature. Only a token that would be good if it were
// genuine gets as far as the keys. The caller returned is not verified yet.
func (i *issuer) check(t *rawToken, now time.Time) (*Caller, error) {
	switch {
	case !slices.Contains(i.algorithms, t.alg):
		return nil, invalid("algorithm")
	case !slices.Contains(i.types, t.typ):
		return nil, invalid("type")
	}
	who, err := i.judge(t.claims, now)
	if err == nil && t.typ == typeTxnToken && !hasAll(t.claims, txnClaims) {
		return nil, invalid("claim")
	}
	return who, err
}

// judge is the strict pass over claims, wherever they come from.
func (i *issuer) judge(claims object, now time.Time) (*Caller, error) {
	switch {
	case claims.hasVariant(i.guarded...):
		return nil, invalid("claim")
	case claims["cnf"] != nil:
		// It is for the holder of a key (RFC 7800), by DPoP or a client certificate, and nobody here proves that to us.
		return nil, invalid("bound")
	}
	if err := i.checkAudience(claims); err != nil {
		return nil, err
	}
	expiry, err := i.checkTimes(claims, now)
	if err != nil {
		return nil, err
	}
	if sub, ok := plain(claims["sub"]); !ok || sub == "" {
		return nil, invalid("claim")
	}
	caller, ok := i.mapClaims(claims)
	if !ok || caller.Subject == "" || !hasAll(claims, i.require) || !matches(claims, i.match) || i.replay != ReplayOff && caller.TokenID == "" {
		return nil, invalid("claim")
	}
	caller.Issuer, caller.Expiry = i.url, expiry
	caller.replay, caller.end = i.replay, expiry.Add(i.leeway)
	return caller, nil
}

// checkAudience accepts a string or a list of strings that holds one of ours (RFC 7519, section 4.1.3) and then judges azp.
func (i *issuer) checkAudience(claims object) error {
	var audiences []string
	if one, ok := asString(claims["aud"]); ok {
		audiences = []string{one}
	} else if audiences, ok = asStrings(claims["aud"]); !ok {
		return invalid("audience")
	}
	if slices.Contains(audiences, "") || !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.audiences, a) }) {
		return invalid("audience")
	}
	azp, ok := plain(claims["azp"])
	switch {
	case claims["azp"] != nil && !ok:
		return invalid("claim")
	case len(i.parties) > 0 && !slices.Contains(i.parties, azp):
		return invalid("azp")
	}
	return nil
}

// checkTimes judges exp, nbf and iat with the leeway and returns exp.
func (i *issuer) checkTimes(claims object, now time.Time) (time.Time, error) {
	exp, ok := asTime(claims["exp"])
	if !ok {
		return time.Time{}, invalid("claim")
	}
	if !now.Before(exp.Add(i.leeway)) {
		return time.Time{}, invalid("expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		if claims[name] == nil {
			continue
		}
		at, ok := asTime(claims[name])
		if !ok {
			return time.Time{}, invalid("claim")
		}
		if at.After(now.Add(i.leeway)) {
			return time.Time{}, invalid("not_yet_valid")
		}
	}
	if i.maxLifetime > 0 {
		if iat, ok := asTime(claims["iat"]); !ok || exp.Sub(iat) > i.maxLifetime {
			return time.Time{}, invalid("lifetime")
		}
	}
	return exp, nil
}

// mapClaims fills a Caller. A claim of the wrong type is an error, never an absent one: else it would move the choice
// on to a weaker name.
func (i *issuer) mapClaims(claims object) (*Caller, bool) {
	c := &Caller{}
	for _, m := range []struct {
		names []string
		to    *string
	}{
		{i.claims.Subject, &c.Subject}, {i.claims.Tenant, &c.Tenant}, {i.claims.Agent, &c.Agent}, {i.claims.Task, &c.Task},
		{i.claims.Run, &c.Run}, {i.claims.TokenID, &c.TokenID},
	} {
		value, ok := first(claims, m.names)
		if !ok {
			return nil, false
		}
		if value == nil {
			continue
		}
		if *m.to, ok = plain(value); !ok {
			return nil, false
		}
	}
	scopes, ok1 := first(claims, i.claims.Scopes)
	roles, ok2 := first(claims, i.claims.Roles)
	if !ok1 || !ok2 {
		return nil, false
	}
	c.Scopes, ok1 = asScopes(scopes)
	c.Roles, ok2 = asRoles(roles)
	return c, ok1 && ok2
}

// hasAll reports whether every claim is there and says something.
func hasAll(claims object, paths []string) bool {
	for _, path := range paths {
		value, err := claims.find(path)
		if err != nil {
			return false
		}
		switch string(value) {
		case "", "null", `""`, "[]", "{}":
			return false
		}
	}
	return true
}

// matches reports whether each claim is a string of those that are asked for.
func matches(claims object, match []Match) bool {
	for _, m := range match {
		value, err := claims.find(m.Claim)
		if s, ok := asString(value); err != nil || !ok || !slices.Contains(m.Values, s) {
			return false
		}
	}
	return true
}

// first returns the first present of several claims, nil when there is none.
func first(claims object, names []string) (jsontext.Value, bool) {
	for _, name := range names {
		value, err := claims.find(name)
		if err != nil {
			return nil, false
		}
		if value != nil {
			return value, true
		}
	}
	return nil, true
}

// plain reads a string that two systems cannot read in two ways: printable, not padded with spaces, not too long.
func plain(v jsontext.Value) (string, bool) {
	s, ok := asString(v)
	return s, ok && isPlain(s)
}

func isPlain(s string) bool {
	return len(s) <= maxClaim && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// asStrings reads a list of one string or more.
func asStrings(v jsontext.Value) ([]string, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	raw, ok := elements(v)
	if !ok || len(raw) == 0 {
		return nil, false
	}
	out := make([]string, 0, len(raw))
	for _, e := range raw {
		s, ok := asString(e)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// asScopes reads "a b" (RFC 8693, section 4.2) or ["a","b"]. A scope with a space in it could be read as two.
func asScopes(v jsontext.Value) ([]string, bool) {
	if v == nil {
		return nil, true
	}
	out := []string{}
	if s, ok := asString(v); ok {
		out = append(out, strings.FieldsFunc(s, func(r rune) bool { return r == ' ' })...)
	} else if raw, ok := elements(v); !ok {
		return nil, false
	} else if len(raw) > 0 {
		if out, ok = asStrings(v); !ok {
			return nil, false
		}
	}
	return out, !slices.ContainsFunc(out, func(s string) bool { return !isScope(s) })
}

// isScope checks the scope-token of RFC 6749, section 3.3.
func isScope(s string) bool {
	return s != "" && len(s) <= maxClaim && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// asRoles reads ["a","b"] or a string, which is one role.
func asRoles(v jsontext.Value) ([]string, bool) {
	if v == nil {
		return nil, true
	}
	if s, ok := plain(v); ok {
		return slices.DeleteFunc([]string{s}, func(s string) bool { return s == "" }), true
	}
	raw, ok := elements(v)
	if !ok || len(raw) == 0 {
		return nil, ok
	}
	out, ok := asStrings(v)
	return out, ok && !slices.ContainsFunc(out, func(s string) bool { return s == "" || !isPlain(s) })
}

// asTime reads a NumericDate (RFC 7519, section 2) between 1970 and 9999.
func asTime(v jsontext.Value) (time.Time, bool) {
	if v.Kind() != '0' {
		return time.Time{}, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f >= 0 && f < endOfTime) {
		return time.Time{}, false
	}
	sec := int64(f)
	return time.Unix(sec, int64((f-float64(sec))*1e9)), true
}
