// Package natsd is the NATS server that the control plane of the kill switch runs for itself on one machine, and the
// permissions that keep the control plane and sidecars to their parts on any NATS server.
//
// There are two accounts. The control plane's owns the streams. The sidecars' imports from it what sidecars may hear and
// ask, so that what a sidecar names as the place for an answer is never a subject of the control plane's account: in one
// account a sidecar could have the server write a stored message into the log.
//
// Limits: it keeps keys and JetStream's files below one folder and knows nothing of the log.
//
// It is the only package that imports a NATS server. It imports bus for the subjects. Only cmd/killswitch and tests
// may import it.
package natsd
