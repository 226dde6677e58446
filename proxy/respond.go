package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var responseBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// respond sends the response back: header, body as it comes, trailers. A body that breaks off ends in an abort, since a
// normal return would hand the client a clean end.
func (c *call) respond(ctx context.Context, w http.ResponseWriter, rc *http.ResponseController, res *http.Response, dog *watchdog) {
	h := w.Header()
	for name, values := range incoming(res.Header) {
		h[name] = values
	}
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	c.rec.Status = res.StatusCode
	w.WriteHeader(res.StatusCode)
	flush := res.ContentLength < 0 || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if flush {
		_ = rc.Flush() // the header goes out before the first event
	}
	err := c.copyBody(w, rc, res.Body, dog, flush)
	if err == nil && ctx.Err() != nil { // a body can end cleanly just as its call is cut; the cut counts
		err = context.Cause(ctx)
	}
	if err == nil {
		c.trailers(w, rc, res, announced)
		return
	}
	c.bodyFailed(ctx, err)
	panic(http.ErrAbortHandler)
}

// clientError marks an error of writing to the client.
type clientError struct{ error }

// copyBody copies with a pooled buffer and flushes every piece of a body without a length: an event must not wait.
func (c *call) copyBody(w io.Writer, rc *http.ResponseController, body io.Reader, dog *watchdog, flush bool) error {
	buf := responseBuffers.Get().(*[32 << 10]byte)
	defer responseBuffers.Put(buf)
	idle := c.gates.snapshot.Limits.IdleTimeout
	var armed time.Time
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			dog.touch()
			if c.within != nil {
				c.within.touch()
			}
			if now := time.Now(); now.Sub(armed) > idle/4 { // a client that stops reading is not waited for for ever
				armed = now
				_ = rc.SetWriteDeadline(now.Add(idle * 5 / 4))
			}
			if _, werr := w.Write(buf[:n]); werr != nil {
				return clientError{werr}
			}
			c.rec.BytesIn += int64(n)
			if flush {
				if ferr := rc.Flush(); ferr != nil {
					return clientError{ferr}
				}
			}
		}
		if err == io.EOF {
			_ = rc.SetWriteDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// trailers passes on the trailers: under their own names where they were announced, else with net/http's prefix.
func (c *call) trailers(w http.ResponseWriter, rc *http.ResponseController, res *http.Response, announced int) {
	if len(res.Trailer) == 0 {
		return
	}
	_ = rc.Flush() // forces chunking, without which a short h1 body would have no place for trailers
	for name, values := range res.Trailer {
		if forbiddenTrailer(name) {
			continue
		}
		if len(res.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		w.Header()[name] = values
	}
}

func (c *call) bodyFailed(ctx context.Context, err error) {
	cause := context.Cause(c.ctx)
	var client clientError
	switch {
	case cause != nil && !errors.Is(cause, context.Canceled):
		c.cutBy(cause)
	case errors.Is(context.Cause(ctx), errStalled):
		c.rec.Code, c.rec.ErrorClass = string(UpstreamTimeout), "timeout"
	case errors.As(err, &client) || cause != nil:
		c.rec.ErrorClass = "client_gone"
	default:
		c.rec.Code, c.rec.ErrorClass = string(UpstreamProtocol), "upstream_protocol"
	}
}
