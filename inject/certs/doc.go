// Package certs keeps a release's certificates: its CA, the leaves of its Services, the kill switch's signing key and the token of
// its first admin, in Secrets of the release's namespace, and the CA in the webhook configurations. With certificates of somebody else's making it reads them
// from a folder instead.
//
// Any number of replicas may do so at once, without a leader: each change is made to the version that was read, and whoever comes
// second reads again. What another has made is adopted.
//
// Limits: it never overwrites a Secret that does not carry its label, nor one whose content it cannot read; no tool's TLS is made
// here, since every sidecar has a CA of its own in memory. Only cmd/injector may import it.
package certs
