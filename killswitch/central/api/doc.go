// Package api carries the control plane of the kill switch over HTTP: JSON below /v1, problem+json for refusals (RFC 9457),
// server-sent events to watch, metrics and health.
//
// Limits: handlers read a request, call one method of central.Service and write what it returned; they decide nothing. Who
// asks is found out by an Authenticator. Nothing here takes credentials from a cookie or a query, and nothing that changes
// state takes a body that a form of another site could send.
//
// It imports central and ledger. Only login, console and cmd/killswitch may import it.
package api
