// Package cases replays public bug reports of other proxies, and of the libraries that proxies are made of, against the sidecar's
// binary: one case for each report, by an id, in a table for each area. A case says where the report is, what is sent and what
// must hold. It holds tests only. testdata/ids.txt lists all ids; those that are not run yet stand in testdata/later.txt with the
// reason.
//
// The tests run in a network namespace of their own in which every address is local. Whatever the sidecar may be talked into
// dialling, the cloud's metadata service included, answers there, and every TCP connection that is begun is seen on the wire.
// Pods are further namespaces, joined to this one by a link on which every packet is seen; TestFence runs tools of several users in
// one, behind the whole of the transparent mode.
//
// Limits: Linux only, as root or where user namespaces are allowed; elsewhere the tests are skipped, with the reason, unless
// CI=true. Pods need root. Cases run one after the other, since they share the wire.
//
// Nothing may import it; its tests import devissuer.
package cases
