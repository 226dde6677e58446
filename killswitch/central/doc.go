// Package central is the control plane of the kill switch: it keeps the signed log in a JetStream stream, decides who may
// add what to it, tells the fleet by heartbeats and checkpoints, and knows which sidecars have which revision in force.
//
// Service has a method for each thing that a person or a machine may ask for; the packages below it carry them: natsd is
// the NATS server for one machine, api is HTTP. Several services over one stream need no leader: compare-and-set on the
// stream's sequence orders them.
//
// Limits: it holds the whole log in memory, about a kilobyte an entry. What sidecars say is counted and shown, and decides
// nothing, except for what the control plane's own key has signed. It does not know HTTP and starts no server.
//
// It imports killswitch, ledger and bus. Only its own subpackages and cmd/killswitch may import it.
package central
