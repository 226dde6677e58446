package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/redact"
)

// serve carries one request: decide, obtain the credential, forward. ctx ends when the client leaves.
func (c *call) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, a *ask) {
	to := newClient(w, r, c.gates.snapshot.Limits.IdleTimeout)
	defer to.leave()
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		c.rec.IdempotencyKey = redact.Hash(key)
	}
	start := time.Now()
	d := c.decide(ctx, a)
	c.rec.PolicyTime = time.Since(start)
	if d != nil {
		c.refuseRequest(to, d)
		return
	}
	cred, d := c.obtain()
	if d != nil {
		c.refuseCredential(to, d)
		return
	}
	c.rec.Decision = "allow"
	c.forward(to, cred)
}

// obtain is gate 6b: the credential of the binding, for this caller. No binding, no credential.
func (c *call) obtain() (*broker.Credential, *Denial) {
	if c.binding == nil {
		return nil, nil
	}
	start := time.Now()
	c.span.Exchange(start, c.binding.Name)
	cred, err := c.gates.broker.Credential(c.ctx, c.binding, c.subject())
	c.rec.CredentialTime = time.Since(start)
	if err != nil {
		return nil, c.brokerDenial(err)
	}
	c.credentialRef(cred.Ref())
	return cred, nil
}

// refuseCredential answers a call whose credential was not to be had. When the client has left, that is why, and the issuer is
// not to blame.
func (c *call) refuseCredential(to *client, d *Denial) {
	if d.Code == CredentialUnavailable && errors.Is(context.Cause(c.ctx), context.Canceled) {
		c.rec.Decision, c.rec.ErrorClass = "allow", "client_gone"
		c.abort(to)
	}
	c.refuseRequest(to, d)
}

// refuseRequest answers a request that is refused or failed before anything of a response was sent.
func (c *call) refuseRequest(to *client, d *Denial) {
	c.refuse(d)
	status, header, body := d.answer(c)
	if isGRPC(to.r) {
		status, header = d.grpcAnswer(c)
		body = nil
	}
	h := to.w.Header()
	for name, values := range header {
		h[name] = values
	}
	c.rec.Status = status
	to.drain()
	to.writeHeader(status)
	if len(body) > 0 {
		_, _ = to.w.Write(body)
	}
}

// forward sends the request on and the response back. The inbound request stays untouched.
func (c *call) forward(to *client, cred *broker.Credential) {
	ctx := c.ctx
	dog := watch(c.release, c.tool.Timeout, to.idle, func() { c.moved(clock()) })
	defer dog.stop()
	defer c.proxy.leave(c)
	if d := c.proxy.enter(c, c.release); d != nil {
		c.refuseRequest(to, d)
		return
	}
	to.body.begin(ctx, func() {
		now := clock()
		dog.touch(now)
		c.moved(now)
	})
	c.keepPayloads(to)
	defer c.logPayloads(to)
	defer c.describeInput(to)
	c.captureCall(to)
	upgrade := isWebSocket(to.r)
	if !to.h1 && !to.body.none { // an h1 client's exchange sees to it
		defer context.AfterFunc(ctx, to.interrupt)()
	}
	out := c.request(to.r, &to.body, upgrade)
	if cred != nil {
		defer c.letGo()
		askPlain(out.Header)
		if !c.applyCredential(ctx, to, out, cred) {
			return
		}
	}
	if err := c.intend(to.r.Header.Get("Content-Type"), to.body.held); err != nil {
		if ctx.Err() != nil {
			c.roundTripFailed(ctx, to, ctx.Err())
		} else {
			c.refuseRequest(to, unrecorded(err))
		}
		return
	}
	res, cred, err := c.send(ctx, to, out, upgrade, cred)
	if err != nil {
		c.roundTripFailed(ctx, to, err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	dog.header(to.idle)
	to.res = res
	if cred != nil {
		cred.ScrubHeader(res.Header)
		cred.ScrubHeader(res.Trailer) // the names, which are announced
		if d := c.decode(to, res); d != nil {
			c.refuseRequest(to, d)
			return
		}
	}
	c.passOn(ctx, to, res, dog, upgrade, cred)
}

// send makes the round trip, a second one where a new credential may help, and returns the credential that the answer is to.
func (c *call) send(ctx context.Context, to *client, out *http.Request, upgrade bool, cred *broker.Credential) (*http.Response, *broker.Credential, error) {
	start := time.Now()
	c.span.Upstream(start)
	res, err := c.roundTrip(ctx, to, out, upgrade, cred)
	if err == nil && cred != nil {
		res, cred, err = c.secondTry(ctx, to, out, res, upgrade, cred)
	}
	c.rec.UpstreamTime = time.Since(start)
	to.answer()
	return res, cred, err
}

// passOn gives the client the answer, as what it is.
func (c *call) passOn(ctx context.Context, to *client, res *http.Response, dog *watchdog, upgrade bool, cred *broker.Credential) {
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		dog.stop() // the registry's idle timeout takes over
		c.upgraded(to, res, upgrade, cred)
	case res.StatusCode < http.StatusOK:
		c.refuseRequest(to, c.failure(errStatus))
	default:
		c.respond(ctx, to, res, dog, cred)
	}
}

// roundTrip chooses the way out by the client's protocol: an h1 client gains nothing from an h2 upstream and pays for it.
func (c *call) roundTrip(ctx context.Context, to *client, out *http.Request, upgrade bool, cred *broker.Credential) (*http.Response, error) {
	u := c.upstream(cred)
	switch {
	case upgrade:
		keepAgent(out)
		return u.ws.RoundTrip(out.WithContext(c.withTrace(ctx, to, cred)))
	case to.h1:
		return u.h1.roundTrip(ctx, c, to, out, cred, false)
	default:
		return u.h2.roundTrip(ctx, c, to, out, cred)
	}
}

// keepAgent keeps net/http from adding its own name.
func keepAgent(out *http.Request) {
	if _, given := out.Header["User-Agent"]; !given {
		out.Header["User-Agent"] = noAgent
	}
}

var noAgent = []string{""}

var errStatus = errors.New("the upstream's final status is none")

// moved keeps the tunnel that the request came through from being taken for idle.
func (c *call) moved(now int64) {
	if c.within != nil {
		c.within.moved(now)
	}
}

// cause tells why the call was ended from here, if it was. A revocation that covers the call's tunnel as well closes the
// client's connection, which may be noticed first; the revocation is the cause all the same.
func (c *call) cause(ctx context.Context) error {
	cause := context.Cause(ctx)
	var tripped *killswitch.Tripped
	if !errors.As(cause, &tripped) && c.within != nil && c.within.connect.ctx != nil {
		if outer := context.Cause(c.within.connect.ctx); errors.As(outer, &tripped) {
			return outer
		}
	}
	return cause
}

// roundTripFailed answers a call that has no response. What ended it from here counts before what broke because of that,
// and a request that broke off before whatever the upstream made of it.
func (c *call) roundTripFailed(ctx context.Context, to *client, err error) {
	cause, readErr := c.cause(ctx), to.body.failed()
	var tripped *killswitch.Tripped
	var changed *policyChanged
	switch {
	case errors.As(cause, &tripped):
		c.refuseRequest(to, c.failure(cause))
		c.cutBy(cause)
	case errors.As(cause, &changed):
		c.refuseRequest(to, changed.denial(c))
	case errors.Is(cause, context.Canceled):
		c.rec.ErrorClass = "client_gone"
		c.abort(to)
	case cause != nil:
		c.refuseRequest(to, c.failure(cause))
	case readErr != nil:
		c.rec.ErrorClass = "client_body"
		c.refuseRequest(to, deny(BadRequest, "The request's body is malformed or broke off.", readErr))
	default:
		c.refuseRequest(to, c.failure(err))
	}
}

// request builds the outbound request. Its authority is the target's, never the client's text.
func (c *call) request(r *http.Request, body *requestBody, upgrade bool) *http.Request {
	address, host := c.target.HostPort(), c.authority()
	var o struct { // one allocation
		request http.Request
		url     url.URL
	}
	out := &o.request
	out.URL = &o.url
	o.url = url.URL{Scheme: c.target.Scheme, Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	out.Method, out.Host, out.Proto, out.ProtoMajor, out.ProtoMinor = r.Method, host, "HTTP/1.1", 1, 1
	out.Header, out.ContentLength = outgoing(r.Header), r.ContentLength
	c.propagate(out.Header)
	if !body.none {
		out.Body = body
		out.Trailer = body.trailer
	}
	if upgrade {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	}
	return out
}

// authority is the target's host, with its port where that is not the scheme's.
func (c *call) authority() string {
	address := c.target.HostPort()
	if c.target.Port == schemePort(c.target.Scheme) {
		return address[:strings.LastIndexByte(address, ':')]
	}
	return address
}

// withTrace relays informational responses (RFC 9110, section 15.2) but 100, which net/http sends when the body is read,
// and 101, and lets the dialer count.
func (c *call) withTrace(ctx context.Context, to *client, cred *broker.Credential) context.Context {
	ctx = context.WithValue(ctx, attemptsKey{}, &c.attempts)
	trace := &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { c.reached(i.Conn, c.release) },
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == http.StatusContinue || code == http.StatusSwitchingProtocols {
				return nil
			}
			to.body.asked.Store(true) // what came was not the final status
			if cred != nil {
				cred.ScrubHeader(http.Header(header))
			}
			return to.inform(code, http.Header(header))
		},
	}
	if to.body.expect {
		trace.GotFirstResponseByte = func() { to.body.answered.Store(true) }
		trace.Got100Continue = func() { to.body.asked.Store(true) }
	}
	return httptrace.WithClientTrace(ctx, trace)
}
