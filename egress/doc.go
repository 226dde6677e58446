// Package egress decides where a tool may connect, and connects only there. It holds the canonical Target of a call,
// the allowlist and rules of a manifest as a Policy, the table of special-purpose addresses, the Dialer that judges
// each address where the socket connects, and the ProxyDialer that has a proxy connect.
//
// Limits: it knows names, ports, methods, paths and addresses, and what a proxy answers to a CONNECT; not callers,
// credentials, YAML or the HTTP statuses of refusals.
//
// It is a leaf: it imports nothing of this module. Only config (to parse rules), proxy and cmd may import it.
package egress
