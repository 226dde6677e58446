package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/killswitch"
)

var responseBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// respond sends the response back: header, body as it comes, trailers. A body that breaks off ends in an abort, since a
// normal return would hand the client a clean end.
func (c *call) respond(ctx context.Context, to *client, res *http.Response, dog *watchdog, cred *broker.Credential) {
	h, empty := to.w.Header(), bodiless(to.r, res)
	incoming(h, res.Header)
	if _, given := h["Content-Type"]; !given {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	var announced map[string]bool
	for name := range res.Trailer {
		if !forbiddenTrailer(name) {
			if announced == nil {
				announced = make(map[string]bool, len(res.Trailer))
			}
			announced[name] = true
			h.Add("Trailer", name)
		}
	}
	c.captureAnswer(res)
	c.rec.Status = res.StatusCode
	to.writeHeader(res.StatusCode)
	flush := !empty && (res.ContentLength < 0 || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"))
	if flush {
		_ = to.rc.Flush() // the header goes out before the first event
	}
	c.keepResponse(to, res)
	body := io.Reader(res.Body)
	if cred != nil {
		body = cred.ScrubBody(body)
	}
	if !empty {
		if err := c.copyBody(ctx, to, body, dog, flush); err != nil {
			c.bodyFailed(ctx, err)
			c.abort(to)
		}
	}
	c.captureBody(nil, true)
	to.arrived = true
	if cred != nil {
		cred.ScrubHeader(res.Trailer)
	}
	trailers(to, res, announced)
	to.deliver()
}

// bodiless reports whether a response has no body whatever its header says (RFC 9110, section 6.4.1). For net/http it is over
// when the header is written, and so is its request's context.
func bodiless(r *http.Request, res *http.Response) bool {
	return r.Method == http.MethodHead || res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
}

// clientError marks an error of writing to the client.
type clientError struct{ error }

// copyBody copies with a pooled buffer and flushes every piece of a body without a length: an event must not wait.
//
// An end that is read after the call was ended is not believed: closing a TLS connection tells the upstream first, and
// what it then sends as its regular end may still be read.
func (c *call) copyBody(ctx context.Context, to *client, body io.Reader, dog *watchdog, flush bool) error {
	buf := responseBuffers.Get().(*[32 << 10]byte)
	defer responseBuffers.Put(buf)
	armed := clock() // it has just been, for the header
	for {
		n, err := body.Read(buf[:])
		now := clock()
		if now-armed > int64(to.idle/4) && (n > 0 || err == io.EOF) { // an end is also written
			armed = now
			to.arm()
		}
		if n > 0 {
			dog.touch(now)
			c.moved(now)
			if _, werr := to.w.Write(buf[:n]); werr != nil {
				return clientError{werr}
			}
			c.rec.BytesIn += int64(n)
			to.back.Add(buf[:n])
			if flush {
				if ferr := to.rc.Flush(); ferr != nil {
					return clientError{ferr}
				}
			}
			c.captureBody(buf[:n], false)
		}
		if err == io.EOF && ctx.Err() != nil {
			return ctx.Err()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// trailers passes on the trailers: under their own names where they were announced, else with net/http's prefix.
func trailers(to *client, res *http.Response, announced map[string]bool) {
	if len(res.Trailer) == 0 {
		return
	}
	_ = to.rc.Flush() // forces chunking, without which a short h1 body would have no place for trailers
	h := to.w.Header()
	for name, values := range res.Trailer {
		switch {
		case forbiddenTrailer(name):
		case announced[name] && values == nil:
			delete(h, name) // net/http would send the header of that name once more
		case announced[name]:
			h[name] = values
		default:
			h[http.TrailerPrefix+name] = values
		}
	}
}

// bodyFailed notes why a response broke off.
func (c *call) bodyFailed(ctx context.Context, err error) {
	cause := c.cause(ctx)
	var client clientError
	switch {
	case errors.As(cause, new(*killswitch.Tripped)), errors.As(cause, new(*policyChanged)):
		c.cutBy(cause)
	case errors.As(err, &client) || errors.Is(cause, context.Canceled):
		c.rec.ErrorClass = "client_gone"
	case errors.Is(cause, errStalled):
		c.rec.Code, c.rec.ErrorClass = string(UpstreamTimeout), "timeout"
	default:
		c.rec.Code, c.rec.ErrorClass = string(UpstreamProtocol), "upstream_protocol"
	}
}
