package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The protocols, by their names in OpenTelemetry's configuration.
const (
	HTTP = "http/protobuf"
	GRPC = "grpc"
)

// Signal is a kind of telemetry: where it goes below a collector's address.
type Signal struct {
	Path   string // of OTLP/HTTP
	Method string // of OTLP/gRPC
}

// Traces is the signal of spans; its message is ExportTraceServiceRequest, which on the wire is TracesData.
var Traces = Signal{"/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}

// Logs is the signal of log records; its message is ExportLogsServiceRequest, which on the wire is LogsData.
var Logs = Signal{"/v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"}

// Options say where telemetry goes.
type Options struct {
	Endpoint    string // http or https URL of the collector; a path other than / stands in place of the signal's, with HTTP
	Protocol    string // HTTP or GRPC
	CAFile      string // PEM file of the roots for the endpoint, read at each connection; empty: the system's
	HeadersFile string // headers for each message, one "name: value" a line, read each time; empty: none
}

// Client sends messages to one collector. It is safe for concurrent use.
type Client struct {
	options   Options
	base      *url.URL
	transport *http.Transport
}

// New returns a client, which connects when it first sends.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the collector's endpoint is no http or https URL")
	}
	if o.Protocol != HTTP && o.Protocol != GRPC {
		return nil, fmt.Errorf("%q is no protocol of OTLP", o.Protocol)
	}
	return &Client{options: o, base: u, transport: newTransport(o)}, nil
}

// Error tells why a message was not taken.
type Error struct {
	Reason string        // closed set: "connection", "headers", "status", "answer"
	Status int           // of HTTP or of gRPC; 0: none
	Again  bool          // the same message may be taken later
	After  time.Duration // how long the collector wants to be left alone; 0: it does not say
	Cause  error         // may quote the endpoint; never what was sent
}

// Error names the reason and the status.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("the collector did not take it: %s %d", e.Reason, e.Status)
	}
	return "the collector did not take it: " + e.Reason
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// maxAnswer bounds what is read of an answer, whose message may hold a text.
const maxAnswer = 64 << 10

// Export sends one message and returns how many items of it the collector has thrown away. A failure is an *Error.
func (c *Client) Export(ctx context.Context, s Signal, message []byte) (rejected int64, err error) {
	headers, err := readHeaders(c.options.HeadersFile)
	if err != nil {
		return 0, &Error{Reason: "headers", Again: true, Cause: err}
	}
	if c.options.Protocol == GRPC {
		return c.exportGRPC(ctx, s, headers, message)
	}
	return c.exportHTTP(ctx, s, headers, message)
}

// Close ends idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// post sends a request; the answer's body must be closed.
func (c *Client) post(ctx context.Context, path, contentType string, headers http.Header, body io.Reader) (*http.Response, error) {
	u := *c.base
	u.Path, u.RawPath = path, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return nil, &Error{Reason: "connection", Cause: err}
	}
	req.Header = headers
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "toolgate")
	res, err := c.transport.RoundTrip(req) // not by a Client, which follows redirects
	if err != nil {
		return nil, &Error{Reason: "connection", Again: true, Cause: err}
	}
	return res, nil
}

// exportHTTP is OTLP/HTTP (OTLP specification 1.x, section "OTLP/HTTP").
func (c *Client) exportHTTP(ctx context.Context, s Signal, headers http.Header, message []byte) (int64, error) {
	path := s.Path
	if p := strings.TrimSuffix(c.base.Path, "/"); p != "" {
		path = p
	}
	res, err := c.post(ctx, path, "application/x-protobuf", headers, strings.NewReader(string(message)))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, &Error{Reason: "status", Status: res.StatusCode, Again: true, After: retryAfter(res.Header.Get("Retry-After"))}
	default:
		return 0, &Error{Reason: "status", Status: res.StatusCode}
	}
	if err != nil {
		return 0, &Error{Reason: "answer", Cause: err} // it was taken; once more would double it
	}
	return rejectedOf(answer)
}

// rejectedOf reads rejected_spans, or what stands there in another signal's answer: field 1 of field 1. A collector may send a
// warning with none rejected.
func rejectedOf(answer []byte) (int64, error) {
	partial, ok := fieldOf(answer, 1)
	if !ok {
		return 0, &Error{Reason: "answer"}
	}
	n, ok := varintOf(partial, 1)
	if !ok {
		return 0, &Error{Reason: "answer"}
	}
	return n, nil
}

// fieldOf returns a field of bytes, empty if it is not there. It reports false for what is no message.
func fieldOf(b []byte, number protowire.Number) (value []byte, ok bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil, false
		}
		if num == number && typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
	}
	return value, true
}

func varintOf(b []byte, number protowire.Number) (value int64, ok bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return 0, false
		}
		if num == number && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			value = int64(v)
		}
		b = b[n:]
	}
	return value, true
}
