// Package inject readies a pod for the sidecar. It holds the fence: the Plan of who may send what, the rules that follow from
// it, and the netlink calls that put these rules into the pod's network namespace, read them back and take them out.
//
// Limits: it fences what leaves the pod, by the user id of the socket, and nothing that comes in. It changes the namespace of
// the calling thread, whichever that is, and no table but its own. It works on Linux only. It knows neither configs nor
// manifests, and does not listen.
//
// It is a leaf: it imports nothing of this module. Only cmd may import it.
package inject
