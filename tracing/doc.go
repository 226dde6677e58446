// Package tracing tells an OpenTelemetry collector of calls: one execute_tool span each, with spans below it for the decision, the
// credential and the upstream.
//
// Spans are made of the finished record, field by field from a closed list, by the goroutine that sends them. So spans and records
// agree, nothing enters a span by default, and a call pays for an entry in a queue alone. What does not fit in the queue is dropped and
// counted; no call waits for a collector.
//
// Limits: spans of calls only, OTLP only. It decides nothing but whether a call is traced. Only proxy and cmd/sidecar may import it.
package tracing
