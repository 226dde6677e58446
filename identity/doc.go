// Package identity answers who is calling: it verifies a token against the configured issuers, by their keys or, where it is opaque, by
// their word, and maps its claims to a Caller. It also reads the forms in which a client may hand over its token.
//
// Limits: a Caller is what an issuer said, not a permission. Keys are kept in memory only. The token's text is the
// caller's secret: it is never part of an error.
//
// It is a leaf: it imports nothing of this module. Only config, killswitch/signals, proxy and cmd may import it.
package identity
