package config

import (
	"path/filepath"
	"testing"
)

func TestTracing(t *testing.T) {
	dir := corpus(t)
	got := mustLoad(t, filepath.Join(dir, "good/tracing.yaml")).Tracing
	if len(got.Propagate) != 1 || !got.Propagate[0].Match("a.internal.example", 443) || got.Propagate[0].Match("api.example", 443) {
		t.Errorf("propagate: %v", got.Propagate)
	}
	got.Propagate = nil
	equal(t, "tracing", got, Tracing{
		Endpoint: "https://collector.example:4317", Protocol: "grpc", CAFile: filepath.Join(dir, "keys/ca.pem"),
		HeadersFile: filepath.Join(dir, "more/collector-headers"), SampleRatio: 0.25, MaxPerSecond: 7,
	})
	equal(t, "none", mustLoad(t, filepath.Join(dir, "good/defaults.yaml")).Tracing, Tracing{})
}

func TestAuditOTLP(t *testing.T) {
	dir := corpus(t)
	equal(t, "audit.otlp", mustLoad(t, filepath.Join(dir, "good/audit-otlp.yaml")).Audit.OTLP, AuditOTLP{
		Endpoint: "https://collector.example:4317", Protocol: "grpc", CAFile: filepath.Join(dir, "keys/ca.pem"),
		HeadersFile: filepath.Join(dir, "more/collector-headers"), SpoolBytes: 1 << 20,
	})
}
