// Package e2e runs the sidecar's binary between real clients and real peers: curl, Go, Python, Node and git on one side; on
// the other a TLS upstream that demands a scoped token, git's own HTTP backend, and an authorization server that shares no
// code with Toolgate (issuer/issuer.mjs). It holds tests only.
//
// Limits: everything listens on loopback, on ports that the system chose. A client that the machine lacks is skipped, with the
// reason, unless CI=true. The Node peers need ./setup.sh once.
//
// Nothing may import it; its tests import devissuer.
package e2e
