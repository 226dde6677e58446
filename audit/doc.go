// Package audit writes one record for every call. A record is an allowlist by construction: it has no field that
// could hold a payload, a header value, a query or a credential.
//
// Limits: it orders, chains and writes what it is given; it does not decide what a call was.
//
// It imports redact and nothing else of this module. Only proxy and cmd may import it.
package audit
