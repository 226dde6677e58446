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

// check compares an issued token with what was asked.
func (c *claims) check(a *ask, now time.Time) Reason {
	if !absent(c.Audience) && (a.audience != "" || a.resource != "") {
		aud, ok := stringsOf(c.Audience)
		if !ok || !(a.audience != "" && slices.Contains(aud, a.audience) || a.resource != "" && slices.Contains(aud, a.resource)) {
			return WrongAudience
		}
	}
	if !absent(c.Subject) {
		if sub, ok := stringOf(c.Subject); !ok || sub != a.subject {
			return WrongSubject
		}
	}
	if !absent(c.Actor) {
		if _, ok := partyOf(c.Actor); !ok {
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

// checkScopes refuses a token that says of itself that it can do more than the answer around it admits.
func (c *claims) checkScopes(a *ask) Reason {
	for _, v := range []jsontext.Value{c.Scope, c.Scopes} {
		if absent(v) {
			continue
		}
		list, ok := stringsOf(v)
		if !ok {
			return BadAnswer
		}
		if r := compareScopes(strings.Join(list, " "), a.scopes); r != "" && r != NarrowerScope {
			return r
		}
	}
	return ""
}
