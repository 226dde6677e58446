// Package settings reads the injector's file: which images, ids, resources and base config every injected pod gets.
//
// Limits: it reads once and watches nothing; the base config of sidecars is held as it stands, and the sidecar itself checks it. Only
// inject/pod, inject/webhook, inject/certs, inject/tools and cmd/injector may import it.
package settings
