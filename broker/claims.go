package broker

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claims are those parts of a JWT that are compared. Nothing here verifies a signature: the token's reader does that.
// Names are matched exactly and duplicates refused, since readers differ in which of two they believe.
type claims struct {
	Issuer   jsontext.Value `json:"iss"`
	Subject  jsontext.Value `json:"sub"`
	Audience jsontext.Value `json:"aud"`
	Expiry   jsontext.Value `json:"exp"`
	Actor    jsontext.Value `json:"act"`
	MayAct   jsontext.Value `json:"may_act"`
	Scope    jsontext.Value `json:"scope"`
	Scopes   jsontext.Value `json:"scp"`
}

var errClaims = errors.New("not the claims of a JWT")

// parseJWT returns nil and no error for what is not a JWT. What looks like one must be readable, or a token with a
// mistake in it would pass as an opaque one and escape every check.
func parseJWT(token string) (*claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, nil
	}
	header, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[0], "="))
	if err != nil || !strings.HasPrefix(strings.TrimSpace(string(header)), "{") {
		return nil, nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errClaims
	}
	c := new(claims)
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, errClaims
	}
	return c, nil
}

func absent(v jsontext.Value) bool { return len(v) == 0 }

func stringOf(v jsontext.Value) (string, bool) {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return s, true
}

// stringsOf reads a string or a list of strings.
func stringsOf(v jsontext.Value) ([]string, bool) {
	if s, ok := stringOf(v); ok {
		return []string{s}, true
	}
	var list []string
	if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
		return nil, false
	}
	return list, true
}

// timeOf reads a NumericDate (RFC 7519, section 2).
func timeOf(v jsontext.Value) (time.Time, bool) {
	var f float64
	if v.Kind() != '0' || json.Unmarshal(v, &f) != nil {
		return time.Time{}, false
	}
	const farAway = 1 << 40 // some 34,000 years: beyond it the conversion would wrap
	return time.Unix(int64(min(max(f, 0), farAway)), 0), true
}

// endOf returns the exp of a JWT, and the zero time for what tells none.
func endOf(token string) time.Time {
	c, err := parseJWT(token)
	if err != nil || c == nil {
		return time.Time{}
	}
	exp, _ := timeOf(c.Expiry)
	return exp
}

// party is the value of act and may_act (RFC 8693, sections 4.1 and 4.4).
type party struct {
	Subject string `json:"sub"`
	Issuer  string `json:"iss"`
}

func partyOf(v jsontext.Value) (party, bool) {
	var p party
	if v.Kind() != '{' || json.Unmarshal(v, &p) != nil {
		return party{}, false
	}
	return p, p.Subject != ""
}

// mayAct reports whether the subject token lets this actor act. An issuer that forgets the claim when no actor is sent
// would otherwise decide it for us.
func mayAct(subjectToken, actorToken string) bool {
	subject, err := parseJWT(subjectToken)
	if err != nil {
		return false
	}
	if subject == nil || absent(subject.MayAct) {
		return true
	}
	allowed, ok := partyOf(subject.MayAct)
	if !ok {
		return false
	}
	actor, err := parseJWT(actorToken)
	if err != nil || actor == nil {
		return false
	}
	sub, ok := stringOf(actor.Subject)
	if !ok || sub != allowed.Subject {
		return false
	}
	iss, _ := stringOf(actor.Issuer)
	return allowed.Issuer == "" || iss == allowed.Issuer
}

// check compares an issued token with what was asked. What a JWT does not say of itself is as wrong as a lie: a token
// without an audience is good everywhere, and one without a subject may be anybody's.
func (c *claims) check(a *ask, now time.Time) Reason {
	if a.audience != "" || a.resource != "" {
		aud, ok := stringsOf(c.Audience)
		if !ok || !(a.audience != "" && slices.Contains(aud, a.audience) || a.resource != "" && slices.Contains(aud, a.resource)) {
			return WrongAudience
		}
	}
	if a.exchange {
		if sub, ok := stringOf(c.Subject); !ok || sub != a.subject {
			return WrongSubject
		}
		if !c.checkActor(a) {
			return WrongActor
		}
	}
	if !absent(c.Expiry) {
		exp, ok := timeOf(c.Expiry)
		switch {
		case !ok:
			return BadAnswer
		case !now.Before(exp):
			return Expired
		}
	}
	return c.checkScopes(a)
}

// checkActor reports whether act is who asked. An issuer that ignores the actor gives an impersonation to whoever asked
// for a delegation. Only the outermost actor counts (RFC 8693, section 4.1); an opaque actor token cannot be compared.
func (c *claims) checkActor(a *ask) bool {
	if absent(c.Actor) {
		return a.actor.value.IsZero()
	}
	act, ok := partyOf(c.Actor)
	if !ok {
		return false
	}
	actor, err := parseJWT(a.actor.value.Reveal())
	if err != nil || actor == nil {
		return true
	}
	if sub, ok := stringOf(actor.Subject); !ok || sub != act.Subject {
		return false
	}
	iss, _ := stringOf(actor.Issuer)
	return act.Issuer == "" || act.Issuer == iss
}

// checkScopes refuses a token that says of itself that it can do more, or less, than the answer around it admits.
func (c *claims) checkScopes(a *ask) Reason {
	var granted []string
	for _, v := range []jsontext.Value{c.Scope, c.Scopes} {
		if absent(v) {
			continue
		}
		list, ok := stringsOf(v)
		if !ok {
			return BadAnswer
		}
		granted = append(granted, list...)
	}
	if absent(c.Scope) && absent(c.Scopes) {
		return ""
	}
	return compareScopes(strings.Join(granted, " "), a.scopes)
}
