// Package ship sends the lines of records to an OpenTelemetry collector, each as it was hashed, beside the sink that has them already.
//
// Limits: what it sends is a copy. It decides nothing about calls, and none waits for it. Lines may arrive twice, and in another order
// where a collector does not keep it; their chain and number are attributes. It does not look into lines beyond what names them.
//
// It imports audit and tracing/otlp. Only cmd/sidecar may import it.
package ship
