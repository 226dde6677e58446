package tracing

import (
	"encoding/hex"
	"math/rand/v2"
	"time"

	"github.com/toolgate/toolgate/audit"
)

// Span is a call that is traced. A nil Span is a call that is not, and every method may be called on it. It belongs to the call's
// goroutine.
type Span struct {
	tracer   *Tracer
	parent   parent
	trace    [16]byte
	id       [8]byte
	upstream [8]byte
	flags    byte
	record   audit.Record // from End on

	decided                time.Time // the end of the gates
	exchangeAt, upstreamAt time.Time // zero: there was none
	binding                string
}

// Begin decides whether a call of a tool is traced, and returns its span or nil. A traceparent that can be read is continued, and traced
// if it says so; without one a trace is begun for the configured share of calls. The tool's limit holds for both. It is to be called at
// the end of the decision, with the empty name where the tool is not known.
func (t *Tracer) Begin(tool, header string) *Span {
	if t == nil {
		return nil
	}
	p, continued := parseParent(header)
	switch {
	case continued && !p.sampled():
		return nil
	case !continued && rand.Float64() >= t.options.SampleRatio:
		return nil
	}
	if !t.limits.take(tool) {
		t.options.Observe(Limited, 1)
		return nil
	}
	s := &Span{tracer: t, parent: p, trace: p.trace, flags: p.flags, id: newSpanID(), upstream: newSpanID(), decided: time.Now()}
	if !continued {
		s.trace, s.flags = newTraceID(), flagSampled|flagRandom
	}
	return s
}

// TraceID returns the trace's id in hex, or "".
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.trace[:])
}

// ID returns the id of the call's own span in hex, or "".
func (s *Span) ID() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.id[:])
}

// Traceparent returns the header by which an upstream, or a gateway on the way to it, continues the trace, or "".
func (s *Span) Traceparent() string {
	if s == nil {
		return ""
	}
	return traceparent(s.trace, s.upstream, s.flags)
}

// Exchange notes when a credential of a binding was asked for.
func (s *Span) Exchange(at time.Time, binding string) {
	if s != nil {
		s.exchangeAt, s.binding = at, binding
	}
}

// Upstream notes when the upstream was turned to.
func (s *Span) Upstream(at time.Time) {
	if s != nil {
		s.upstreamAt = at
	}
}

// End hands the finished call over, which takes a copy of its record. It never waits: where the queue is full, the call's spans are
// dropped and counted. It must be called once.
func (s *Span) End(r *audit.Record) {
	if s == nil {
		return
	}
	s.record = *r
	s.tracer.offer(s)
}

// spans is how many spans the call makes.
func (s *Span) spans() int {
	n := 2
	if !s.exchangeAt.IsZero() {
		n++
	}
	if !s.upstreamAt.IsZero() {
		n++
	}
	return n
}
