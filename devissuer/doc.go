// Package devissuer is a small OIDC issuer with a token endpoint (RFC 8693) for first contact and for tests.
//
// Limits: never for production. Its keys live in memory, it has no users and no consent, it mints whatever its owner
// asks for, and it can be told to misbehave. It listens where its owner puts it, by default on loopback.
//
// It imports nothing of this module. Only cmd, bench and tests may import it.
package devissuer
