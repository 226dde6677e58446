package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/fixture"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/redact"
	"github.com/toolgate/toolgate/tracing"
)

// call is one request or one tunnel on its way through the gates. It belongs to one goroutine at a time.
type call struct {
	proxy    *Proxy
	gates    *Gates
	listener *config.Listener
	rec      audit.Record
	attempts egress.Attempts

	asked     *ask
	target    egress.Target
	caller    *identity.Caller
	token     redact.Secret
	tool      *config.Tool
	binding   *broker.Binding
	intercept bool // a tunnel whose requests must be seen
	blunt     bool // a captured connection whose client speaks TLS and can be told nothing else

	ctx     context.Context         // ends when the call is revoked; set by the guard
	release context.CancelCauseFunc // takes it out of the kill switch, and ends ctx

	peer atomic.Pointer[net.TCPAddr] // of a request: where it is connected to; from then on some of it may have gone out

	trace      func(Step) // of explain; nil otherwise
	unverified bool       // of explain: the token's signature is not checked
	handed     bool       // another goroutine finishes the call; read and written by the handler's only
	done       bool
	workload   *workload         // who came for the caller; nil but on a gateway
	span       *tracing.Span     // nil: not traced
	fixture    *fixture.Exchange // nil: not captured
	within     *tunnel           // the intercepted tunnel that the request came through

	holds  int64        // bytes of its body in memory
	inside atomic.Int32 // of an intercepted tunnel: the requests that came through it
}

// begin opens the record of a call, before any check.
func (p *Proxy) begin(listener, kind string) *call {
	g := p.gates.Load()
	c := &call{
		proxy: p, gates: g, listener: g.listener(listener),
		rec: audit.Record{
			ID: audit.NewID(), Time: time.Now(), Kind: kind, Listener: listener,
			Decision: "deny", PolicyRevision: g.snapshot.Revision, Mode: string(g.snapshot.Mode),
		},
	}
	c.attempts.ID = c.rec.ID
	return c
}

// refuse notes a denial or failure in the record. The decision says what the gates said, the code how the call ended: whatever the
// code, a call is only denied as long as nothing of it can have reached its upstream.
func (c *call) refuse(d *Denial) {
	c.rec.Code = string(d.Code)
	var invalid *identity.InvalidError
	if errors.As(d.Cause, &invalid) {
		c.rec.Reason = invalid.Reason
	}
	if d.meaning().failure || c.sent() {
		c.rec.Decision = "allow"
	} else {
		c.rec.Decision = "deny"
	}
	if d.Cause != nil {
		c.proxy.log.LogAttrs(context.Background(), slog.LevelDebug, "refused", slog.String("decision_id", c.rec.ID),
			slog.String("code", string(d.Code)), slog.Any("cause", d.Cause))
	}
}

// sent reports whether something of a request may have reached the upstream.
func (c *call) sent() bool { return c.peer.Load() != nil }

// finish writes the record and counts the call, once, whatever happened.
func (c *call) finish() {
	if c.done {
		return
	}
	c.done = true
	if c.release != nil {
		c.release(nil)
	}
	c.rec.Total = time.Since(c.rec.Time)
	c.rec.DialAttempts = int(c.attempts.Dialed.Load())
	// The record comes last: whoever has seen it finds the call in the metrics, its spans and its capture.
	c.proxy.metrics.count(&c.rec, c.exemplar())
	c.span.End(&c.rec)
	c.captured()
	c.proxy.audit.Write(c.rec)
}

// finishUnlessHanded is what the handler defers: a tunnel goes on when its handler has returned, and is finished by
// whoever ends it.
func (c *call) finishUnlessHanded() {
	if !c.handed {
		c.finish()
	}
}

// credentialRef notes which credential the call carries.
func (c *call) credentialRef(ref broker.Ref) {
	c.rec.CredentialBinding, c.rec.CredentialKind, c.rec.CredentialAudience = ref.Binding, ref.Kind, ref.Audience
	c.rec.CredentialScopes, c.rec.CredentialExpires = ref.Scopes, ref.Expires
}
