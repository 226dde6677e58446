// Package bus is what the kill switch's control plane and the sidecars say to each other over NATS: subjects, messages,
// the permissions that keep each side to its part, and Source, the sidecar's end.
//
// The transport is not trusted. Entries, checkpoints and heartbeats are signed (package ledger); what a sidecar says is
// counted and shown, and decides nothing.
//
// Limits: it signs nothing and appends nothing; that is the control plane's part. It must not import a NATS server: the
// sidecar links this package. It imports killswitch and ledger; only killswitch/central and cmd may import it.
package bus
