package broker

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"
)

const (
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
)

// maxLifetime caps what an issuer says: nothing that this package handles should live longer.
const maxLifetime = 24 * time.Hour

// answer is RFC 8693, section 2.2.1. The types are checked one by one: issuers differ in how they spell numbers.
type answer struct {
	AccessToken     jsontext.Value `json:"access_token"`
	IssuedTokenType jsontext.Value `json:"issued_token_type"`
	TokenType       jsontext.Value `json:"token_type"`
	Scope           jsontext.Value `json:"scope"`
	ExpiresIn       jsontext.Value `json:"expires_in"`
}

// check judges a reply to a request that was sent at start. The token's Expiry is zero when the issuer did not tell it.
func (a *ask) check(r reply, start, now time.Time) (*oauth2.Token, Reason) {
	if r.status != http.StatusOK {
		return nil, refusal(r)
	}
	var ans answer
	if err := json.Unmarshal(r.body, &ans); err != nil {
		return nil, BadAnswer
	}
	token, ok := stringOf(ans.AccessToken)
	if !ok || !isToken(token) {
		return nil, BadAnswer
	}
	issued, _ := stringOf(ans.IssuedTokenType)
	bearer, _ := stringOf(ans.TokenType)
	if a.exchange && !a.takes(issued) || !strings.EqualFold(bearer, "Bearer") {
		return nil, BadTokenType
	}
	if !absent(ans.Scope) && ans.Scope.Kind() != 'n' { // absent: as asked (RFC 8693, section 2.2.1)
		scope, ok := stringOf(ans.Scope)
		if !ok {
			return nil, BadAnswer
		}
		if r := compareScopes(scope, a.scopes); r != "" {
			return nil, r
		}
	}
	expiry, reason := expiryOf(ans.ExpiresIn, start)
	if reason != "" {
		return nil, reason
	}
	return a.checkJWT(&oauth2.Token{AccessToken: token, TokenType: "Bearer", Expiry: expiry}, issued, now)
}

// takes reports whether an answer may be of this issued_token_type.
func (a *ask) takes(issued string) bool {
	if a.issuedType != "" {
		return issued == a.issuedType
	}
	return issued == typeAccessToken || issued == typeJWT
}

// checkJWT looks into a token that can be looked into.
func (a *ask) checkJWT(tok *oauth2.Token, issued string, now time.Time) (*oauth2.Token, Reason) {
	c, err := parseJWT(tok.AccessToken)
	switch {
	case err != nil, c == nil && issued == typeJWT:
		return nil, BadAnswer
	case c == nil:
		return tok, ""
	}
	if r := c.check(a, now); r != "" {
		return nil, r
	}
	if exp, ok := timeOf(c.Expiry); ok {
		if tok.Expiry.IsZero() {
			tok.Expiry = now.Add(maxLifetime)
		}
		if exp.Before(tok.Expiry) {
			tok.Expiry = exp
		}
	}
	return tok, ""
}

// compareScopes returns why granted differs from asked, which is sorted. Both directions are refused: an issuer is not
// trusted to narrow, and a call must not fail half way for a scope that it was not given.
func compareScopes(granted, asked string) Reason {
	g := slices.DeleteFunc(strings.Split(granted, " "), func(s string) bool { return s == "" })
	got, ok := joinScopes(g)
	if !ok {
		return BadAnswer
	}
	if got == asked {
		return ""
	}
	want := strings.Split(asked, " ")
	for _, s := range g {
		if !slices.Contains(want, s) {
			return WiderScope
		}
	}
	return NarrowerScope
}

// expiryOf reads expires_in as issuers write it: 3600, 3600.0, "3600". Absent is the zero time.
func expiryOf(v jsontext.Value, start time.Time) (time.Time, Reason) {
	if absent(v) || v.Kind() == 'n' {
		return time.Time{}, ""
	}
	number := string(v)
	if s, ok := stringOf(v); ok {
		number = s
	}
	// The grammar of JSON keeps out what ParseFloat would take besides: inf, nan, hexadecimal.
	if n := jsontext.Value(number); !n.IsValid() || n.Kind() != '0' {
		return time.Time{}, BadExpiry
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, BadExpiry
	}
	if seconds <= 0 {
		return time.Time{}, Expired
	}
	seconds = min(seconds, maxLifetime.Seconds())
	return start.Add(time.Duration(seconds * float64(time.Second))), ""
}

// refusals are the codes that are passed on; any other is one word, since a code is the endpoint's text too.
var refusals = map[string]Reason{
	"invalid_request": InvalidRequest, "invalid_client": InvalidClient, "invalid_grant": InvalidGrant,
	"unauthorized_client": UnauthorizedClient, "unsupported_grant_type": UnsupportedGrantType,
	"invalid_scope": InvalidScope, "invalid_target": InvalidTarget,
	"invalid_resource": InvalidTarget, // Entra
}

func refusal(r reply) Reason {
	switch {
	case r.status == http.StatusTooManyRequests:
		return RateLimited
	case r.status >= 500:
		return ServerError
	case r.status < 400:
		return BadAnswer
	}
	var body struct {
		Code jsontext.Value `json:"error"`
	}
	if json.Unmarshal(r.body, &body) == nil {
		if code, ok := stringOf(body.Code); ok && refusals[code] != "" {
			return refusals[code]
		}
	}
	if r.status == http.StatusUnauthorized {
		return InvalidClient
	}
	return Refused
}
