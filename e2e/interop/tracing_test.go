package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// collector is the configuration of the OTLP receiver of the OpenTelemetry Collector, with TLS and one protocol.
type collector struct {
	address string
	factory receiver.Factory
	conf    component.Config
}

func newCollector(t *testing.T, w *world, protocol string) *collector {
	t.Helper()
	key := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(w.pki.leaf.PrivateKey))
	w.write(t, "collector.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.pki.leaf.Certificate[0]})))
	w.write(t, "collector-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")) // the receiver takes no listener, and does not tell its port
	c := &collector{address: ln.Addr().String(), factory: otlpreceiver.NewFactory()}
	_ = ln.Close()
	c.conf = c.factory.CreateDefaultConfig()
	settings := map[string]any{"endpoint": c.address, "tls": map[string]any{"cert_file": w.path("collector.pem"), "key_file": w.path("collector-key.pem")}}
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{protocol: settings}}).Unmarshal(c.conf); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *collector) settings() receiver.Settings {
	return receiver.Settings{ID: component.NewID(c.factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
}

func startReceiver(t *testing.T, r component.Component) {
	t.Helper()
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
}

// startCollector runs the receiver for spans, and returns what it has received.
func startCollector(t *testing.T, w *world, protocol string) (address string, sink *consumertest.TracesSink) {
	t.Helper()
	c := newCollector(t, w, protocol)
	sink = new(consumertest.TracesSink)
	startReceiver(t, must[receiver.Traces](t)(c.factory.CreateTraces(t.Context(), c.settings(), c.conf, sink)))
	return c.address, sink
}

func spansOf(sink *consumertest.TracesSink) map[string]ptrace.Span {
	out := map[string]ptrace.Span{}
	for _, td := range sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					out[s.Name()] = s
				}
			}
		}
	}
	return out
}

// plantedEnvironment returns what sets every variable that OpenTelemetry's SDK would read to another place, where nobody may come.
func plantedEnvironment(t *testing.T) func(*testing.T) {
	t.Helper()
	decoy := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = decoy.Close() })
	go func() {
		for {
			conn, err := decoy.Accept()
			if err != nil {
				return
			}
			t.Error("the place in OTEL_* was dialled")
			_ = conn.Close()
		}
	}()
	planted := filepath.Join(t.TempDir(), "absent.pem")
	return func(t *testing.T) {
		for name, value := range map[string]string{
			"ENDPOINT": "http://" + decoy.Addr().String(), "HEADERS": "x-planted=1", "CERTIFICATE": planted, "PROTOCOL": "http/json", "INSECURE": "true",
			"TIMEOUT": "1", "COMPRESSION": "gzip",
		} {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_"+name, value)
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_"+name, value)
		}
		for name, value := range map[string]string{
			"SDK_DISABLED": "true", "TRACES_SAMPLER": "always_off", "SERVICE_NAME": "planted", "RESOURCE_ATTRIBUTES": "service.name=planted,planted=1",
			"BSP_MAX_QUEUE_SIZE": "1", "SPAN_ATTRIBUTE_COUNT_LIMIT": "0", "PROPAGATORS": "none",
		} {
			t.Setenv("OTEL_"+name, value)
		}
	}
}

// TestCollector sends spans to the OpenTelemetry Collector's own receiver, by both protocols, while every variable that OpenTelemetry's
// SDK would read names another place.
func TestCollector(t *testing.T) {
	plant := plantedEnvironment(t)
	for _, c := range []struct{ name, protocol string }{{"http", "http/protobuf"}, {"grpc", "grpc"}} {
		t.Run(c.name, func(t *testing.T) {
			plant(t)
			w := newWorld(t)
			port := w.serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), true)
			address, sink := startCollector(t, w, c.name)
			w.limits += fmt.Sprintf("\ntracing: {endpoint: \"https://%s\", protocol: %s, caFile: upstream-ca.pem}", address, c.protocol)
			s := w.start(t)
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
				Proxy: http.ProxyURL(s.proxyURL()), TLSClientConfig: &tls.Config{RootCAs: roots(t, w.trusted(boundHost))}, DisableKeepAlives: true}}
			const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			r := must[*http.Request](t)(http.NewRequest(http.MethodGet, urlOf("https", boundHost, port, "/secret-path?q=secret-query"), nil))
			r.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			s.stop(t) // which flushes
			spans := spansOf(sink)
			call, ok := spans["execute_tool interop"]
			if !ok || len(spans) != 4 {
				t.Fatalf("spans %v", spans)
			}
			id, up, of := call.TraceID(), call.ParentSpanID(), call.SpanID()
			if hex.EncodeToString(id[:]) != trace || hex.EncodeToString(up[:]) != parent {
				t.Errorf("the trace is not continued: %s below %s", id, up)
			}
			if got := spans["upstream"]; got.ParentSpanID() != of || got.Kind() != ptrace.SpanKindClient {
				t.Errorf("upstream: %v below %s", got.Kind(), got.ParentSpanID())
			}
			text := string(must[[]byte](t)((&ptrace.JSONMarshaler{}).MarshalTraces(sink.AllTraces()[0])))
			for _, never := range []string{"planted", "secret-path", "secret-query", credential, "user:alice"} {
				if strings.Contains(text, never) {
					t.Errorf("exported: %q in %s", never, text)
				}
			}
			if !strings.Contains(text, "toolgate-sidecar") {
				t.Errorf("no service.name: %s", text)
			}
		})
	}
}
