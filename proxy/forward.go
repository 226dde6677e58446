package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
)

// serve carries one request: decide, obtain the credential, forward.
func (c *call) serve(w http.ResponseWriter, r *http.Request, a *ask) {
	c.rec.TraceID, c.rec.SpanID, _ = audit.ParseTraceparent(a.traceparent)
	start := time.Now()
	d := c.decide(r.Context(), a)
	c.rec.PolicyTime = time.Since(start)
	var cred *broker.Credential
	if d == nil {
		cred, d = c.obtain()
	}
	if d != nil {
		c.refuseRequest(w, d)
		return
	}
	c.rec.Decision = "allow"
	c.forward(w, r, cred)
}

// obtain is gate 6b: the credential of the binding, for this caller. No binding, no credential.
func (c *call) obtain() (*broker.Credential, *Denial) {
	if c.binding == nil {
		return nil, nil
	}
	start := time.Now()
	cred, err := c.gates.broker.Credential(c.ctx, c.binding, c.subject())
	c.rec.CredentialTime = time.Since(start)
	if err != nil {
		return nil, c.brokerDenial(err)
	}
	c.credentialRef(cred.Ref())
	return cred, nil
}

// refuseRequest answers a request that is refused or failed before anything of a response was sent.
func (c *call) refuseRequest(w http.ResponseWriter, d *Denial) {
	c.refuse(d)
	status, header, body := d.answer(c)
	h := w.Header()
	for name, values := range header {
		h[name] = values
	}
	c.rec.Status = status
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// forward sends the request on and the response back. The inbound request stays untouched.
func (c *call) forward(w http.ResponseWriter, r *http.Request, cred *broker.Credential) {
	ctx, dog := watch(c.ctx, c.tool.Timeout)
	defer dog.stop()
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // h1: an upstream may answer while the request is still being sent
	body := c.newRequestBody(r, dog)
	defer func() { c.describeInput(r, body) }()
	upgrade := isWebSocket(r)
	out := c.request(c.withTrace(ctx, w), r, body, upgrade)
	if cred != nil {
		cred.Apply(out)
	}
	transport := c.gates.upstreams[c.tool.Name].transport(r)
	start := time.Now()
	res, err := transport.RoundTrip(out)
	c.rec.UpstreamTime = time.Since(start)
	if err != nil {
		c.roundTripFailed(w, ctx, body, err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	dog.header(c.gates.snapshot.Limits.IdleTimeout)
	if cred != nil {
		cred.ScrubHeader(res.Header)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		dog.stop() // the registry's idle timeout takes over
		c.upgraded(w, res, upgrade)
		return
	}
	c.respond(ctx, w, rc, res, dog)
}

func (c *call) roundTripFailed(w http.ResponseWriter, ctx context.Context, body *requestBody, err error) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if readErr := body.failed(); readErr != nil && c.ctx.Err() == nil {
		c.rec.ErrorClass = "client_body" // the request broke off; there may be nobody left to answer
		c.refuseRequest(w, deny(BadTarget, "The request's body broke off.", readErr))
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, context.Canceled) {
		c.rec.ErrorClass = "client_gone"
		panic(http.ErrAbortHandler)
	}
	c.refuseRequest(w, c.failure(err))
}

// request builds the outbound request. Its authority is the target's, never the client's text.
func (c *call) request(ctx context.Context, r *http.Request, body *requestBody, upgrade bool) *http.Request {
	host := c.target.HostPort()
	if c.target.Port == schemePort(c.target.Scheme) {
		host = host[:len(host)-len(strconv.Itoa(int(c.target.Port)))-1]
	}
	out := (&http.Request{
		Method: r.Method,
		URL: &url.URL{Scheme: c.target.Scheme, Host: c.target.HostPort(), Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        outgoing(r.Header),
		ContentLength: r.ContentLength,
	}).WithContext(ctx)
	if r.ContentLength != 0 {
		out.Body = body
		out.Trailer = body.trailer
	}
	if upgrade {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	}
	return out
}

// withTrace relays informational responses (RFC 9110, section 15.2) but 100, which net/http sends when the body is read,
// and 101, and lets the dialer count.
func (c *call) withTrace(ctx context.Context, w http.ResponseWriter) context.Context {
	ctx = context.WithValue(ctx, attemptsKey{}, &c.attempts)
	var mu sync.Mutex
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == http.StatusContinue || code == http.StatusSwitchingProtocols {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			h := w.Header()
			for name, values := range incoming(http.Header(header)) {
				h[name] = values
			}
			w.WriteHeader(code)
			clear(h)
			return nil
		},
	})
}
