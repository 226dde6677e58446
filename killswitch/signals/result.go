package signals

import "errors"

// Result is what became of one event or alert. The set is closed; it may label a metric.
type Result string

// The results. Of those that are refusals, Unavailable alone asks the sender to try again.
const (
	Revoked  Result = "revoked"  // a revocation is in force, now or since before
	Restored Result = "restored" // a resolved alert's revocation is not in force
	Expired  Result = "expired"  // it came so late that its revocation would be over
	Ignored  Result = "ignored"  // nothing that is to be acted on
	Noted    Result = "noted"    // about the stream itself: verification, stream-updated

	Unauthenticated Result = "unauthenticated" // the sender's bearer token is missing or wrong
	Malformed       Result = "malformed"       // not what the protocol says
	BadKey          Result = "bad_key"         // signature, key or algorithm
	BadIssuer       Result = "bad_issuer"
	BadAudience     Result = "bad_audience"
	BadTime         Result = "bad_time"    // issued too long ago, or in the future
	Unmapped        Result = "unmapped"    // the rules do not say whom it means
	Taken           Result = "taken"       // its id was used for another revocation
	Refused         Result = "refused"     // the control plane does not accept the revocation
	Truncated       Result = "truncated"   // the sender left alerts out
	Unavailable     Result = "unavailable" // keys, the control plane or a token file cannot be had now
)

// Outcome is what is counted. Sender is a configured name; Event is one of Events, "alert", or "other".
type Outcome struct {
	Sender, Event string
	Result        Result
}

// refusal is the error of an event that is not accepted. Text goes to the sender and quotes nothing of the event.
type refusal struct {
	result Result
	text   string
}

func (r *refusal) Error() string { return string(r.result) + ": " + r.text }

func refuse(r Result, text string) error { return &refusal{r, text} }

// asRefusal returns err as a refusal. What is none is a failure of ours, which may pass.
func asRefusal(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	return &refusal{Unavailable, "try again later"}
}

// code is the error code of RFC 8935, section 2.4.
func (r *refusal) code() string {
	switch r.result {
	case BadKey:
		return "invalid_key"
	case BadIssuer:
		return "invalid_issuer"
	case BadAudience:
		return "invalid_audience"
	case Unauthenticated:
		return "authentication_failed"
	}
	return "invalid_request"
}

// fromRevoker maps an error of a Revoker.
func fromRevoker(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTaken):
		return refuse(Taken, "this event's identifier was used for another event")
	case errors.Is(err, ErrRefused), errors.Is(err, ErrUnknown):
		return refuse(Refused, "the control plane does not accept the revocation")
	}
	return err
}
