package proxy

import (
	"net/http"
	"slices"
	"time"
)

// captureCall begins to keep what the call's request and answer are, where the config names its tool. The request is the tool's own, before
// anything of a credential. A WebSocket has no answer that could be replayed.
func (c *call) captureCall(to *client) {
	p := c.proxy
	if p.capture == nil || isWebSocket(to.r) || !slices.Contains(c.gates.snapshot.Audit.Capture.Tools, c.tool.Name) {
		return
	}
	e := p.capture.Begin()
	e.Tool, e.Decision, e.Scrubber, e.Fields, e.Start = c.tool.Name, c.rec.ID, c.tool.Scrubber, c.tool.InputFields, c.rec.Time
	e.Method, e.Proto, e.Header = to.r.Method, to.r.Proto, outgoing(to.r.Header)
	e.Origin = c.target.Scheme + "://" + c.authority()
	e.URL = e.Origin + to.r.URL.RequestURI()
	if to.body.none {
		e.Request.End()
	}
	c.fixture, to.body.fixture = e, &e.Request
}

// captureAnswer notes the header of the answer as the tool is to see it.
func (c *call) captureAnswer(res *http.Response) {
	if c.fixture == nil {
		return
	}
	c.fixture.Wait = time.Since(c.rec.Time)
	c.fixture.Status, c.fixture.Answer = res.StatusCode, http.Header{}
	incoming(c.fixture.Answer, res.Header)
}

// captureBody keeps a piece of the answer's body, and notes its end.
func (c *call) captureBody(piece []byte, ended bool) {
	if c.fixture == nil {
		return
	}
	c.fixture.Response.Add(piece)
	if ended {
		c.fixture.Response.End()
	}
}

// captured hands over what was kept.
func (c *call) captured() {
	if c.fixture != nil {
		c.fixture.Took = c.rec.Total
		c.fixture.Finish()
	}
}
