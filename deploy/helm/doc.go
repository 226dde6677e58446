// Package helm holds the tests of the chart toolgate, which run the real helm, kubeconform and helm-unittest over it.
//
// Limits: it asks no API server; what only one can say is for e2e/cluster. It has no code of its own, and no package may import it.
package helm
