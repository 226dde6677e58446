// Package otlp sends telemetry to a collector by OTLP 1.x, over HTTP with protobuf bodies or over gRPC.
//
// It is written on net/http alone. OpenTelemetry's own exporters read environment variables (OTEL_*, GRPC_*, HTTPS_PROXY): whoever may
// set one could send what a sidecar knows about its callers elsewhere. This one goes where its Options say.
//
// Limits: protobuf only, no compression, no redirects, no proxy. It sends one message at a time and neither queues nor repeats; its
// caller does. Only tracing, audit/ship, config for the form of its files, and cmd/sidecar may import it.
package otlp
