// Package redact keeps secrets and payloads out of everything the sidecar prints: log lines, errors, records and
// metrics. It holds Secret, the only form in which a credential travels through this module, and the functions that
// turn URLs, headers, JSON bodies and errors into text that is safe to write down.
//
// Limits: it masks by place (field name, header name, URL part) and by shape (bearer tokens, JWTs). It does not judge
// whether a value in an unknown place is secret; what it cannot parse within bounds becomes a length and a keyed hash.
//
// It is a leaf: it imports nothing of this module, and every package of this module may import it.
package redact
