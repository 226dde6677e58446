// Package signals turns what other systems notice into revocations: security events of identity providers (OpenID Shared Signals
// Framework 1.0, with events of CAEP 1.0 and RISC 1.0), pushed to us (RFC 8935) or polled by us (RFC 8936), and alerts of an
// Alertmanager.
//
// A revocation's id derives from what the sender cannot change about an event (issuer and jti; fingerprint and start), and its
// content from the event and the configuration alone, so that an event that comes twice is the same request twice.
//
// Limits: it decides whom an event means and keeps nothing; a Revoker makes that rule. What it cannot map it refuses and counts: it
// revokes neither more than the event says nor, silently, less. It creates no streams at transmitters. It parses no YAML.
//
// It imports identity, for an issuer's keys, and killswitch. Only config and cmd may import it.
package signals
