// Package webhook is the injector's HTTP side: admission of pods (POST /mutate) and of ToolManifests (POST /validate), as of
// admission.k8s.io/v1, with its servers, health and metrics.
//
// What it cannot decide it denies: a fault of the injector's, a panic included, never lets a pod through.
//
// Limits: it decides nothing about a pod, which inject/pod does, and speaks to no cluster: namespaces, settings and manifests are
// functions that it is given. Only cmd/injector may import it.
package webhook
