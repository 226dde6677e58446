package redact

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

const placeholder = "[REDACTED:credential]"

// Secret holds a value that no formatter, logger or encoder will show. It points at the value because fmt prints
// unexported fields of a struct without calling their methods, and a pointer is all that it can then show.
// The zero value holds nothing.
type Secret struct{ p *string }

// New wraps s.
func New(s string) Secret { return Secret{&s} }

// Reveal returns the value. Every call of it is a place to review.
func (s Secret) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// IsZero reports whether s holds no value or an empty one.
func (s Secret) IsZero() bool { return s.p == nil || *s.p == "" }

// Equal compares two values in constant time.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// Format writes the placeholder for every verb and flag.
func (Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, placeholder) }

// String returns the placeholder.
func (Secret) String() string { return placeholder }

// LogValue returns the placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(placeholder) }

// MarshalText returns the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(placeholder), nil }
