package signals

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/identity"
)

// claims is what is read of a SET (RFC 8417, section 2.2). exp is not: SETs say what was, and should have none.
type claims struct {
	Issuer  string                    `json:"iss"`
	ID      string                    `json:"jti"`
	At      float64                   `json:"iat"`
	Subject jsontext.Value            `json:"sub_id"`
	Events  map[string]jsontext.Value `json:"events"`
}

// decision is what a SET asks for.
type decision struct {
	id      string // jti; empty when it could not be read
	event   Event  // empty: none that we know
	result  Result // Revoked, when request is to be made; else Expired, Ignored or Noted
	request Request
	note    string // of Noted: the state or status
}

// open verifies a SET and returns its claims.
func (t *transmitter) open(ctx context.Context, token string) ([]byte, error) {
	payload, err := t.keys.Open(ctx, token)
	bad, ok := errors.AsType[*identity.InvalidError](err)
	if !ok {
		return payload, err
	}
	switch bad.Reason {
	case "issuer":
		return nil, refuse(BadIssuer, "the issuer is not the one that is expected here")
	case "audience":
		return nil, refuse(BadAudience, "the event is for another audience")
	case "algorithm", "key", "signature":
		return nil, refuse(BadKey, "the signature is not by an accepted key and algorithm: "+bad.Reason)
	case "type":
		return nil, refuse(Malformed, "the typ is not secevent+jwt")
	}
	return nil, refuse(Malformed, "not a security event token of at most 16 KiB")
}

// decide judges the claims of a verified SET. It changes nothing. The decision has its id and event also beside an error, where they
// could be read.
func (t *transmitter) decide(payload []byte, now time.Time) (decision, error) {
	var c claims
	var d decision
	if json.Unmarshal(payload, &c) != nil || !isPlain(c.ID) || len(c.Events) == 0 {
		return d, refuse(Malformed, "jti, iat or events are missing or not as they should be")
	}
	d.id = c.ID
	at, err := t.issuedAt(c.At, now)
	if err != nil {
		return d, err
	}
	event, details, err := pick(c.Events)
	if d.event = event; err != nil {
		return d, err
	}
	switch event {
	case verification, streamUpdated:
		note, _ := text(details.State)
		if event == streamUpdated {
			note, _ = text(details.Status)
		}
		d.result, d.note = Noted, clean(note, maxState)
		return d, nil
	}
	if event == "" || !t.acts(event) {
		d.result = Ignored
		return d, nil
	}
	sub, err := subjectOf(c.Subject, details.Subject, t.issuers)
	if err != nil {
		return d, err
	}
	rule, selector, err := t.mapped(event, sub)
	if err != nil {
		return d, err
	}
	d.result = Revoked
	d.request = Request{
		ID: revocationID("ssf-", c.Issuer, c.ID), Selector: selector, Reason: t.reason(event, details),
		By: "signals:" + t.config.Name, Ticket: c.ID,
	}
	// From iat and not from now on, so that the same event is the same request again.
	if rule.Expires > 0 {
		if d.request.Expires = at.Add(rule.Expires); !d.request.Expires.After(now) {
			d.result = Expired
		}
	}
	return d, nil
}

// issuedAt judges iat. There is no replay to fear of an old event, whose id is known; but one that comes years late means an
// account as it was then.
func (t *transmitter) issuedAt(seconds float64, now time.Time) (time.Time, error) {
	// 0 is also what a missing iat reads as. 2^33 seconds are the year 2242; beyond, time.Unix would go astray.
	if !(seconds > 0 && seconds < 1<<33) {
		return time.Time{}, refuse(Malformed, "jti, iat or events are missing or not as they should be")
	}
	at := time.Unix(int64(seconds), 0).UTC()
	switch {
	case at.After(now.Add(cmp.Or(t.config.Leeway, DefaultLeeway))):
		return at, refuse(BadTime, "iat lies in the future")
	case at.Before(now.Add(-cmp.Or(t.config.MaxAge, DefaultMaxAge))):
		return at, refuse(BadTime, "iat lies too far in the past")
	}
	return at, nil
}

// revocationID names a revocation by what names its event. Each part has its length in front: no two lists give one text.
func revocationID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return prefix + hex.EncodeToString(h.Sum(nil)[:16])
}

func (t *transmitter) reason(e Event, d details) string {
	out := fmt.Sprintf("%s at %s", e, t.config.Name)
	why := ""
	switch t.config.Reason {
	case "", ReasonAdmin:
		why = english(d.ReasonAdmin)
	case ReasonUser:
		why = english(d.ReasonUser)
	}
	if why != "" {
		out += ": " + why
	}
	return out
}
