// Package ledger is the kill switch's memory: an append-only, revisioned log of signed entries. Each entry names the hash
// of its predecessor and is signed with Ed25519 (RFC 8032) over its canonical JSON (RFC 8785), so that whoever holds the
// public key verifies the whole log by itself, whatever carried it.
//
// It holds the forms that cross the wire (Entry, Checkpoint, Heartbeat), the keys, and State: the fold of the log into
// what is revoked now, which refuses a gap, a fork, a bad signature and a step back.
//
// Limits: it moves and stores nothing and reads no clock. It imports killswitch and nothing else of this module. Only
// config (to read keys), the packages under killswitch and cmd may import it.
package ledger
