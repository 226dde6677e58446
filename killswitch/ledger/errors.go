package ledger

import "fmt"

// Kind is why something of the log was refused. The set is closed; it labels a metric.
type Kind string

// The kinds of refusal.
const (
	Malformed  Kind = "malformed"   // not the canonical form of a valid entry, checkpoint or heartbeat
	UnknownKey Kind = "unknown_key" // signed with a key that is not trusted
	Forged     Kind = "forged"      // the signature does not fit
	OtherLog   Kind = "other_log"   // of another log
	Gap        Kind = "gap"         // entries before it are missing; fetch them
	Behind     Kind = "behind"      // of a revision that is known already, and the same: harmless
	Fork       Kind = "fork"        // another entry at a revision that is known, or another predecessor: two histories
	Rollback   Kind = "rollback"    // the sender's log ends before ours: an old copy of it
	Replayed   Kind = "replayed"    // a heartbeat that is not newer than one that was seen
)

// Error is a refusal. Its text holds no more of the input than numbers and short quoted words.
type Error struct {
	Kind Kind
	Text string
}

// Error says kind and text.
func (e *Error) Error() string { return "kill switch log: " + string(e.Kind) + ": " + e.Text }

// Is reports whether target is an *Error of the same kind, so that errors.Is(err, &Error{Kind: Gap}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

func refuse(k Kind, format string, args ...any) error {
	return &Error{k, fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) error { return refuse(Malformed, format, args...) }
