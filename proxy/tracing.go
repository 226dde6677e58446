package proxy

import (
	"net/http"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/tracing"
)

// joinTrace notes which trace the call belongs to, and begins its span if it is to have one. An intercepted tunnel has none: the requests
// in it are the calls.
func (c *call) joinTrace(a *ask) {
	if a.traceparent != "" {
		c.rec.TraceID, c.rec.SpanID, _ = audit.ParseTraceparent(a.traceparent)
	}
	if c.proxy.tracer == nil || c.intercept {
		return
	}
	tool := ""
	if c.tool != nil {
		tool = c.tool.Name
	}
	if c.span = c.proxy.tracer.Begin(tool, a.traceparent); c.span == nil {
		return
	}
	c.rec.TraceID, c.rec.CallSpanID = c.span.TraceID(), c.span.ID()
	c.attempts.Traceparent = c.span.Traceparent() // of a gateway, which is ours
}

// propagate has the upstream continue the trace below the call's span, where the config names the upstream. Elsewhere, and for a call
// that is not traced, the tool's own headers go as they came: the upstream may be anybody's.
func (c *call) propagate(out http.Header) {
	if c.span == nil {
		return
	}
	for _, p := range c.gates.snapshot.Tracing.Propagate {
		if !p.Match(c.target.Host, c.target.Port) {
			continue
		}
		state := ""
		if c.rec.SpanID != "" { // without a traceparent that can be read, a tracestate means nothing
			state = tracing.State(out["Tracestate"])
		}
		delete(out, "Tracestate")
		if state != "" {
			out["Tracestate"] = []string{state}
		}
		out["Traceparent"] = []string{c.span.Traceparent()}
		return
	}
}

// exemplar is the id of a trace that holds the call: its own, or the tool's where nothing is traced here.
func (c *call) exemplar() string {
	if c.proxy.tracer != nil && c.span == nil {
		return ""
	}
	return c.rec.TraceID
}
