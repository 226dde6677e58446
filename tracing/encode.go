package tracing

import (
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/redact"
)

// schema names the version of the conventions whose names are used: the last that has gen_ai.*.
const schema = "https://opentelemetry.io/schemas/1.41.0"

// message is what is sent of a batch.
func (t *Tracer) message(batch []*Span) *trace.TracesData {
	var spans []*trace.Span
	for _, s := range batch {
		spans = s.append(spans)
	}
	var about attributes
	about.text("service.name", "toolgate-sidecar")
	about.text("service.version", t.options.Version)
	about.text("service.instance.id", t.instance)
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: about},
		ScopeSpans: []*trace.ScopeSpans{{
			Scope:     &common.InstrumentationScope{Name: "github.com/toolgate/toolgate", Version: t.options.Version},
			Spans:     spans,
			SchemaUrl: schema,
		}},
		SchemaUrl: schema,
	}}}
}

// append appends the call's span and those below it.
func (s *Span) append(to []*trace.Span) []*trace.Span {
	r := &s.record
	call := s.span(s.id, "execute_tool", trace.Span_SPAN_KIND_INTERNAL, r.Time, r.Total)
	if r.Tool != "" {
		call.Name += " " + r.Tool
	}
	if s.parent.span != [8]byte{} {
		call.ParentSpanId = s.parent.span[:]
		call.Flags |= uint32(trace.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	call.Attributes = s.callAttributes()
	fail(call, failure(r))
	to = append(to, call, s.decision())
	if !s.exchangeAt.IsZero() {
		to = append(to, s.exchange())
	}
	if !s.upstreamAt.IsZero() {
		to = append(to, s.toUpstream())
	}
	return to
}

// span is a span of this trace below the call's.
func (s *Span) span(id [8]byte, name string, kind trace.Span_SpanKind, at time.Time, took time.Duration) *trace.Span {
	begin := at.UnixNano()
	return &trace.Span{
		TraceId: s.trace[:], SpanId: append([]byte(nil), id[:]...), ParentSpanId: s.id[:], Name: name, Kind: kind,
		StartTimeUnixNano: uint64(begin), EndTimeUnixNano: uint64(begin + int64(max(took, 0))),
		Flags: uint32(s.flags) | uint32(trace.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
	}
}

func (s *Span) decision() *trace.Span {
	r := &s.record
	d := s.span(newSpanID(), "decision", trace.Span_SPAN_KIND_INTERNAL, r.Time, s.decided.Sub(r.Time))
	var a attributes
	a.text("toolgate.decision", r.Decision)
	a.text("toolgate.rule", r.Rule)
	a.text("toolgate.policy.revision", r.PolicyRevision)
	d.Attributes = a
	if s.exchangeAt.IsZero() && s.upstreamAt.IsZero() { // nothing came after it, so it is what ended the call
		fail(d, failure(r))
	}
	return d
}

func (s *Span) exchange() *trace.Span {
	r := &s.record
	e := s.span(newSpanID(), "exchange", trace.Span_SPAN_KIND_INTERNAL, s.exchangeAt, r.CredentialTime)
	var a attributes
	a.text("toolgate.credential.binding", s.binding)
	a.text("toolgate.credential.kind", r.CredentialKind)
	e.Attributes = a
	if s.upstreamAt.IsZero() {
		fail(e, failure(r))
	}
	return e
}

func (s *Span) toUpstream() *trace.Span {
	r := &s.record
	u := s.span(s.upstream, "upstream", trace.Span_SPAN_KIND_CLIENT, s.upstreamAt, r.UpstreamTime)
	var a attributes
	s.address(&a)
	if r.Kind == "request" {
		a.text("http.request.method", knownMethod(r.Method))
		if !failedHere(r) {
			a.number("http.response.status_code", int64(r.Status))
		}
		a.number("http.request.resend_count", int64(max(r.Attempt-1, 0)))
	}
	a.number("toolgate.dial.attempts", int64(r.DialAttempts))
	a.text("toolgate.gateway.decision.id", r.GatewayDecisionID)
	u.Attributes = a
	switch {
	case failedHere(r):
		fail(u, failure(r))
	case r.Status >= 400: // of a client's span, 4xx is an error as well (HTTP conventions, section "Status")
		fail(u, statusText(r.Status))
	}
	return u
}

// callAttributes are the conventions' names where they have one, and toolgate.* where they have none.
func (s *Span) callAttributes() []*common.KeyValue {
	r := &s.record
	var a attributes
	a.text("gen_ai.operation.name", "execute_tool")
	a.text("gen_ai.tool.name", r.Tool)
	a.text("gen_ai.agent.id", r.Agent)
	a.text("gen_ai.conversation.id", r.Run)
	if r.Subject != "" { // never the subject itself
		a.text("enduser.pseudo.id", redact.Hash(r.Issuer+"\x00"+r.Subject))
	}
	s.address(&a)
	a.text("toolgate.decision.id", r.ID)
	a.text("toolgate.decision", r.Decision)
	a.text("toolgate.denial.code", r.Code)
	a.text("toolgate.error.class", r.ErrorClass)
	a.text("toolgate.revocation.id", r.RevocationID)
	a.text("toolgate.rule", r.Rule)
	a.text("toolgate.policy.revision", r.PolicyRevision)
	a.text("toolgate.mode", r.Mode)
	a.text("toolgate.kind", r.Kind)
	a.text("toolgate.listener", r.Listener)
	a.text("toolgate.tenant", r.Tenant)
	a.text("toolgate.task", r.Task)
	a.text("toolgate.tool.version", r.ToolVersion)
	a.text("toolgate.tool.risk", r.Risk)
	a.text("toolgate.credential.binding", r.CredentialBinding)
	a.text("toolgate.credential.kind", r.CredentialKind)
	a.text("toolgate.sidecar.decision.id", r.SidecarDecisionID)
	a.number("toolgate.bytes.out", r.BytesOut)
	a.number("toolgate.bytes.in", r.BytesIn)
	return a
}

// address names the target only where a rule of the manifest has it: the name of any other host is the tool's own text.
func (s *Span) address(a *attributes) {
	if r := &s.record; r.Rule != "" {
		a.text("server.address", r.Host)
		a.number("server.port", int64(r.Port))
	}
}

// failure is the low-cardinality name of what went wrong; "": nothing.
func failure(r *audit.Record) string {
	switch {
	case r.Mode == "report" && r.Decision == "allow" && r.ErrorClass == "":
		return "" // its code is what would have been denied
	case r.Code != "":
		return r.Code
	}
	return r.ErrorClass
}

// failedHere reports whether the status is the sidecar's and not the upstream's.
func failedHere(r *audit.Record) bool { return failure(r) != "" }

func fail(s *trace.Span, why string) {
	if why == "" {
		return
	}
	a := attributes(s.Attributes)
	a.text("error.type", why)
	s.Attributes = a
	s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
}

// knownMethod keeps a method that a tool made up out of a name (HTTP conventions, http.request.method).
func knownMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return m
	}
	return "_OTHER"
}

func statusText(status int) string {
	const digits = "0123456789"
	return string([]byte{digits[status/100%10], digits[status/10%10], digits[status%10]})
}

// attributes leave out what is empty or zero.
type attributes []*common.KeyValue

// maxValue bounds a claim's text.
const maxValue = 256

// text masks what is a secret by its shape: claims are an issuer's texts.
func (a *attributes) text(key, value string) {
	if value == "" {
		return
	}
	value = strings.ToValidUTF8(redact.Text(value), "\uFFFD")
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	*a = append(*a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}})
}

func (a *attributes) number(key string, value int64) {
	if value != 0 {
		*a = append(*a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}})
	}
}
