package signals

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Event is the short name of an event type.
type Event string

// The event types that rules may act on: CAEP 1.0, sections 3.1 to 3.3, and RISC 1.0, sections 2.2 and 2.3.
const (
	SessionRevoked    Event = "session-revoked"
	TokenClaimsChange Event = "token-claims-change"
	CredentialChange  Event = "credential-change"
	AccountDisabled   Event = "account-disabled" // rules for it cover AccountPurged as well
	AccountPurged     Event = "account-purged"
)

// The event types about the stream itself (Shared Signals Framework 1.0, section 8).
const (
	verification  Event = "verification"
	streamUpdated Event = "stream-updated"
)

// Actionable lists the events that a rule may name.
var Actionable = []Event{SessionRevoked, TokenClaimsChange, CredentialChange, AccountDisabled}

const eventTypes = "https://schemas.openid.net/secevent/"

var known = map[string]Event{
	eventTypes + "caep/event-type/session-revoked":     SessionRevoked,
	eventTypes + "caep/event-type/token-claims-change": TokenClaimsChange,
	eventTypes + "caep/event-type/credential-change":   CredentialChange,
	eventTypes + "risc/event-type/account-disabled":    AccountDisabled,
	eventTypes + "risc/event-type/account-purged":      AccountPurged,
	eventTypes + "ssf/event-type/verification":         verification,
	eventTypes + "ssf/event-type/stream-updated":       streamUpdated,
}

// rule is the event whose rules cover e.
func (e Event) rule() Event {
	if e == AccountPurged {
		return AccountDisabled
	}
	return e
}

// details is what is read of an event's value. Reasons are read leniently: a text that is not as it should be is no cause to let
// an account go on.
type details struct {
	Subject     jsontext.Value `json:"subject"` // where drafts before the final framework had sub_id
	ReasonAdmin jsontext.Value `json:"reason_admin"`
	ReasonUser  jsontext.Value `json:"reason_user"`
	State       jsontext.Value `json:"state"`
	Status      jsontext.Value `json:"status"`
}

// pick returns the one event of the events claim that is known, or "". RFC 8417, section 2.2, allows several types for one
// event; of two that are known we cannot tell which one is meant.
func pick(events map[string]jsontext.Value) (Event, details, error) {
	var found Event
	var d details
	for uri, value := range events {
		e, ok := known[uri]
		if !ok {
			continue
		}
		if found != "" {
			return found, d, refuse(Malformed, "more than one event")
		}
		found = e
		if value.Kind() != '{' || json.Unmarshal(value, &d) != nil {
			return found, d, refuse(Malformed, "an event is not an object")
		}
	}
	return found, d, nil
}

const (
	maxValue  = 256 // bytes of a value from outside that a selector may take; the longest claim that identity accepts
	maxReason = 400 // bytes of a reason from outside
	maxState  = 128 // bytes of a state or status that is shown
)

// english reads a text or, by language, texts (CAEP 1.0, section 2), of which it prefers English.
func english(v jsontext.Value) string {
	if s, ok := text(v); ok {
		return clean(s, maxReason)
	}
	var byLanguage map[string]jsontext.Value
	if v.Kind() != '{' || json.Unmarshal(v, &byLanguage) != nil {
		return ""
	}
	languages := make([]string, 0, len(byLanguage))
	for tag := range byLanguage {
		languages = append(languages, tag)
	}
	slices.SortFunc(languages, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	for _, tag := range languages {
		if s, ok := text(byLanguage[tag]); ok {
			return clean(s, maxReason)
		}
	}
	return ""
}

// rank sorts language tags (RFC 5646): English, its variants, others.
func rank(tag string) string {
	lower := strings.ToLower(tag)
	switch {
	case lower == "en":
		return "0"
	case strings.HasPrefix(lower, "en-"):
		return "1" + tag
	}
	return "2" + tag
}

func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// clean makes one printable line of at most limit bytes out of any text.
func clean(s string, limit int) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		for _, r := range word {
			// IsPrint leaves out the format characters that turn text around or hide it.
			if r != unicode.ReplacementChar && unicode.IsPrint(r) {
				b.WriteRune(r)
			}
		}
		if b.Len() > limit {
			return strings.ToValidUTF8(b.String()[:limit-len("…")], "") + "…"
		}
	}
	return strings.TrimSpace(b.String())
}
