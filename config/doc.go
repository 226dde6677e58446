// Package config reads the sidecar's config and its manifests and returns an immutable Snapshot whose values need no
// more checking. It gives every mistake at once, with file, line, column, what was found and what was expected, fills
// what is missing with the risky value, and reloads all or nothing.
//
// Limits: it opens files and nothing else; it contacts nobody and starts nothing that it does not stop.
//
// It imports broker, egress, identity, killswitch, its signals, and redact. Only proxy and cmd may import it.
package config
