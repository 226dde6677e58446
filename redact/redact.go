package redact

import (
	"log/slog"
	"net/http"
)

// Scrubber masks the fields that a manifest names in payloads. The zero value and nil mask only what is secret by
// its name or shape whatever the manifest says. It is immutable and safe for concurrent use.
type Scrubber struct{}

// NewScrubber returns a Scrubber for the manifest's redactFields: key names, matched at any depth in normalised
// spelling (lower case, without "_", "-", "." and spaces).
func NewScrubber(fields []string) *Scrubber { panic("contract") }

// Result is what redaction made of one payload.
type Result struct {
	Text   string         // safe to print
	Status string         // "none", "redacted" or "failed_closed"
	Counts map[string]int // number of masks by class: "field", "credential", "url", …
}

// Body returns the safe form of a payload of this media type. complete is false when b is only the beginning.
// JSON is masked by field; any other type and JSON that does not parse become "[unparsed N bytes hmac=…]".
func (s *Scrubber) Body(contentType string, b []byte, complete bool) Result { panic("contract") }

// Shape returns the key paths of a JSON payload with type and length bucket, sorted, at most 64 of them, for example
// "order.id: string(1-16)". A key that is not in known (normalised as for NewScrubber) is written "*", since keys can
// be data. Nil when b is not JSON.
func Shape(b []byte, known []string) []string { panic("contract") }

// URL returns u without user info, and with every query value and fragment masked; names are kept. What does not
// parse becomes "[unparsed N bytes]".
func URL(u string) string { panic("contract") }

// Headers returns h as sorted "name: value" attributes with the values of all but an allowlist of harmless names
// masked. Authorization keeps its scheme, cookies their names.
func Headers(h http.Header) slog.Value { panic("contract") }

// Text masks what is secret by shape in free text: URLs' user info, query and fragment, bearer and basic credentials,
// JWTs, PEM blocks. It also neutralises control characters.
func Text(s string) string { panic("contract") }

// Error returns a safe description of err: its class and, for a transport error, the host; never the text that
// net/http, net/url or x/oauth2 made, since they quote URLs, headers and bodies.
func Error(err error) string { panic("contract") }

// Hash returns a short keyed hash of s (HMAC-SHA256 under a key drawn at process start, 12 hex digits) that lets two
// lines of one process be matched without showing the value.
func Hash(s string) string { panic("contract") }

// Handler wraps h so that every message and attribute passes through this package first: strings through Text,
// errors through Error, http.Header through Headers, attributes whose key names a secret masked.
func Handler(h slog.Handler) slog.Handler { panic("contract") }
