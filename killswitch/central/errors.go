package central

import (
	"fmt"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Code is why a request was refused. The set is closed; api gives each an HTTP status.
type Code string

// The codes of refusals.
const (
	Invalid        Code = "invalid"         // the request is not well formed
	Forbidden      Code = "forbidden"       // the principal may not do this, or not to this
	NotFound       Code = "not_found"       // there is no such revocation, proposal or revision
	Conflict       Code = "conflict"        // the id is taken by another content, or somebody was first
	Unavailable    Code = "unavailable"     // the store cannot be reached or has no quorum; nothing was written
	UnknownOutcome Code = "unknown_outcome" // the store has not confirmed; it may be written yet. Repeat with the same id
	LogBroken      Code = "log_broken"      // the stored log does not verify; nothing is added to it
	LogLost        Code = "log_lost"        // the store lacks entries that were signed; import them first
)

// Error is a refusal. Text is for the person who asked.
type Error struct {
	Code  Code
	Text  string
	Entry *ledger.Entry // Conflict: what somebody else did first, if the principal may see it
}

// Error says code and text.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

func refuse(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Text: fmt.Sprintf(format, args...)}
}

// AlarmKind is what is wrong with the log or the fleet. The set is closed; it labels a metric.
type AlarmKind string

// The alarms.
const (
	AlarmStore   AlarmKind = "store_unreachable" // the stream does not answer, or has no quorum
	AlarmBroken  AlarmKind = "log_broken"        // the stored log does not verify
	AlarmLost    AlarmKind = "log_lost"          // something signed proves that the store lacks entries
	AlarmClaim   AlarmKind = "unproven_claim"    // a sidecar says that it knows more than the log has, without proof
	AlarmRefused AlarmKind = "sidecars_refuse"   // sidecars refuse what the log says
	AlarmRoster  AlarmKind = "roster_full"       // more sidecars speak than the roster holds
	AlarmSenders AlarmKind = "senders_unheard"   // security events of a sender cannot arrive
)

// Alarms is every kind of alarm.
var Alarms = [...]AlarmKind{AlarmStore, AlarmBroken, AlarmLost, AlarmClaim, AlarmRefused, AlarmRoster, AlarmSenders}

// Alarm is something that a person must look at.
type Alarm struct {
	Kind AlarmKind `json:"kind"`
	Text string    `json:"text"`
}
