// Package login finds out which person uses the console of the kill switch: OpenID Connect with the authorization code and
// PKCE, or one of the API's tokens; then an encrypted cookie for a short time.
//
// Limits: a session is in its cookie alone, so that any replica with the same key reads it and none has to remember it. What
// an issuer takes from a person counts from the next login on, at most Sessions.Life later; a session that a token began ends
// with the token. Who has the key can be anybody.
//
// It imports central and api. Only console and cmd/killswitch may import it.
package login
