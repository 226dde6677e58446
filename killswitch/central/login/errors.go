package login

import "fmt"

// Reason is why a login was refused. The set is closed.
type Reason string

// The reasons.
const (
	UnknownToken      Reason = "unknown_token"      // the token is not one of the API's
	NotBegun          Reason = "not_begun"          // this browser has begun no login, or too long ago, or another one since
	IssuerRefused     Reason = "issuer_refused"     // the issuer said no
	IssuerUnreachable Reason = "issuer_unreachable" // it does not answer, or not as OpenID Connect wants it
	TokenRefused      Reason = "token_refused"      // the ID token that it gave is not for us, not for this login, or not signed by it
	NoRole            Reason = "no_role"            // the person is known, and no role is mapped to them
	TooLong           Reason = "too_long"           // name and tenants do not fit into a cookie
)

// Error is a refused login. Text is for the person; Cause, which may be nil, is for the log.
type Error struct {
	Reason Reason
	Text   string
	Cause  error
}

// Error says all three.
func (e *Error) Error() string {
	if e.Cause == nil {
		return string(e.Reason) + ": " + e.Text
	}
	return string(e.Reason) + ": " + e.Text + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an *Error of the same reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

func refuse(r Reason, cause error, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...), Cause: cause}
}
