// Package interop puts the sidecar's binary between clients and servers of protocols that nobody here wrote: the interop suite of
// gRPC, the HTTP/2 conformance suite h2spec, a WebSocket library, zitadel's OpenID provider, streams as language models send them, and the HTTP parsers of Go,
// Node and nginx. Each speaks through an intercepted tunnel, and where it can, through one that is relayed blind. Other tests use up
// the binary's descriptors, memory and patience. A browser uses the control plane's console while the sidecar streams. It holds tests
// only.
//
// Limits: everything listens on loopback, on ports that the system chose; h2spec also needs 127.0.0.2, which Linux has. The
// version of h2spec is the newest that the module proxy serves. It is a module of its own so that none of these peers becomes a
// dependency of the product. Nothing may import it.
package interop
