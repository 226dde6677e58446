// Package killswitch stops calls, new and running, when an operator says so. It holds the Revocation and its Selector,
// the Switch that every call passes through, and one file per source of revocations.
//
// Limits: it decides and cancels; it does not close connections (whoever holds the guarded context does), parse YAML
// (a source is given its decoder) or know HTTP.
//
// It is a leaf: it imports nothing of this module. Only config (to parse selectors), proxy and cmd may import it.
package killswitch
