package otlp

import (
	"context"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve starts a collector of h1 and, with and without TLS, of HTTP/2.
func serve(t *testing.T, encrypted bool, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetHTTP2(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	if encrypted {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func export(t *testing.T, o Options, message string) (int64, *Error) {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n, err := c.Export(ctx, Traces, []byte(message))
	var failed *Error
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("not an *Error: %v", err)
	}
	return n, failed
}

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func framed(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// TestExport: what arrives, by either protocol, with TLS under roots of our own and without.
func TestExport(t *testing.T) {
	for _, protocol := range []string{HTTP, GRPC} {
		for _, encrypted := range []bool{false, true} {
			var got *http.Request
			var body string
			s := serve(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got, body = r, string(b)
				if protocol == GRPC {
					w.Header().Set("Content-Type", "application/grpc")
					w.Header().Set("Trailer", "Grpc-Status")
					_, _ = io.WriteString(w, framed("\x0a\x02\x08\x07"))
					w.Header().Set("Grpc-Status", "0")
					return
				}
				_, _ = io.WriteString(w, "\x0a\x02\x08\x07")
			})
			o := Options{Endpoint: s.URL, Protocol: protocol, HeadersFile: write(t, "headers", []byte("# a key\nX-Key: a: b\n"))}
			want, path, contentType := "message", "/v1/traces", "application/x-protobuf"
			if protocol == GRPC {
				want, path, contentType = framed(want), Traces.Method, "application/grpc"
			}
			if encrypted {
				if _, err := export(t, o, "m"); err == nil || err.Reason != "connection" {
					t.Errorf("%s: a certificate that nobody vouches for: %v", protocol, err)
				}
				o.CAFile = write(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
			}
			n, err := export(t, o, "message")
			if err != nil || n != 7 {
				t.Fatalf("%s %v: %d %v %v", protocol, encrypted, n, err, errors.Unwrap(err))
			}
			if body != want || got.URL.Path != path || got.Header.Get("Content-Type") != contentType || got.Header.Get("X-Key") != "a: b" {
				t.Errorf("%s %v: %s %v %q", protocol, encrypted, got.URL, got.Header, body)
			}
			if protocol == GRPC && (got.ProtoMajor != 2 || got.Header.Get("Te") != "trailers" || got.Header.Get("Grpc-Timeout") == "") {
				t.Errorf("no gRPC: %s %v", got.Proto, got.Header)
			}
		}
	}
}

// TestFailures: which statuses may be tried again (OTLP specification), and that no redirect is followed.
func TestFailures(t *testing.T) {
	grpc := func(status string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", status)
		}
	}
	plain := func(status int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/elsewhere") {
				t.Error("a redirect was followed")
			}
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		}
	}
	for _, c := range []struct {
		protocol string
		answer   http.HandlerFunc
		want     Error
	}{
		{HTTP, plain(400), Error{Reason: "status", Status: 400}},
		{HTTP, plain(401), Error{Reason: "status", Status: 401}},
		{HTTP, plain(500), Error{Reason: "status", Status: 500}},
		{HTTP, plain(307, "Location", "/elsewhere"), Error{Reason: "status", Status: 307}},
		{HTTP, plain(429, "Retry-After", "7"), Error{Reason: "status", Status: 429, Again: true, After: 7 * time.Second}},
		{HTTP, plain(503, "Retry-After", "-1"), Error{Reason: "status", Status: 503, Again: true}},
		{HTTP, plain(504), Error{Reason: "status", Status: 504, Again: true}},
		{HTTP, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, Error{Reason: "answer"}},
		{GRPC, grpc("14"), Error{Reason: "status", Status: 14, Again: true}},
		{GRPC, grpc("4"), Error{Reason: "status", Status: 4, Again: true}},
		{GRPC, grpc("8"), Error{Reason: "status", Status: 8}},
		{GRPC, grpc("16"), Error{Reason: "status", Status: 16}},
		{GRPC, grpc("x"), Error{Reason: "answer"}},
		{GRPC, grpc("0"), Error{Reason: "answer"}}, // no message
		{GRPC, plain(503), Error{Reason: "status", Status: 503, Again: true}},
		{GRPC, plain(404), Error{Reason: "status", Status: 404}},
	} {
		_, err := export(t, Options{Endpoint: serve(t, false, c.answer).URL, Protocol: c.protocol}, "m")
		if err == nil {
			t.Errorf("%s %v: no error", c.protocol, c.want)
			continue
		}
		got := *err
		if got.Cause = nil; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.protocol, got, c.want)
		}
	}
}

// TestNoEnvironment: neither a proxy's variables nor OpenTelemetry's move a message.
func TestNoEnvironment(t *testing.T) {
	decoy := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("the decoy was asked") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, decoy.URL)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Planted=1")
	s := serve(t, false, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Planted") != "" {
			t.Error("a planted header arrived")
		}
	})
	if _, err := export(t, Options{Endpoint: s.URL, Protocol: HTTP}, "m"); err != nil {
		t.Error(err, err.Cause)
	}
	if _, err := export(t, Options{Endpoint: "http://absent.invalid", Protocol: HTTP}, "m"); err == nil {
		t.Error("a name that is nowhere was reached")
	}
}

func TestHeaders(t *testing.T) {
	for _, text := range []string{"X-Key", "X Key: a", "X-Key:", "Content-Type: a/b", "Host: a", "X: a\x01"} {
		if _, err := ParseHeaders([]byte(text)); err == nil || strings.Contains(err.Error(), "a/b") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := export(t, Options{Endpoint: "http://127.0.0.1:1", Protocol: HTTP, HeadersFile: "/absent"}, "m"); err == nil || err.Reason != "headers" || !err.Again {
		t.Errorf("an absent file: %v", err)
	}
	for _, o := range []Options{{Endpoint: "collector:4317", Protocol: GRPC}, {Endpoint: "http://c", Protocol: "http/json"}, {}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
