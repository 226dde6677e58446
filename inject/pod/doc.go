// Package pod decides what is injected into a pod, and which pods are refused. It is pure: a pod, its namespace, the settings and the
// manifests in; another pod or a sentence out.
//
// Limits: it sees what the API server shows an admission webhook, so no image's contents and no other pod. Only inject/webhook and
// cmd/injector may import it.
package pod
