package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/fixture"
	"github.com/toolgate/toolgate/prefix"
	"github.com/toolgate/toolgate/redact"
)

// requestBody is the client's body on its way out: counted, watched, and kept in part for the record's shape. The
// transport reads it on a goroutine of its own, which may outlive the round trip.
type requestBody struct {
	in      io.ReadCloser
	none    bool  // the request has no body
	length  int64 // announced; -1: unknown
	moved   func()
	from    http.Header // trailers as they arrive
	trailer http.Header // trailers as they may leave

	// Expect: 100-continue. Once the upstream has answered without asking for the body, reading it would ask the client
	// for it; net/http's transport does that, to keep its connection.
	expect          bool
	asked, answered atomic.Bool
	call            context.Context

	fixture *fixture.Body // nil: not captured

	held    []byte // the whole body as it came, if isHeld
	isHeld  bool
	instead *bytes.Reader // what is sent in place of what was read; nil: what is read
	sent    chan struct{} // closed when instead has been read to its end

	mu     sync.Mutex
	start  prefix.Buffer // of what came from the client
	whole  bool          // the end was reached
	closed bool          // by the transport
	err    error
}

// open begins with the body of r.
func (b *requestBody) open(r *http.Request) {
	b.in, b.none, b.whole, b.from, b.length = r.Body, r.ContentLength == 0, r.ContentLength == 0, r.Trailer, r.ContentLength
	b.expect = httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
	if described(mediaType(r.Header.Get("Content-Type"))) {
		b.start.Open(maxCapture, nil)
	}
	for name := range r.Trailer {
		if !forbiddenTrailer(name) {
			if b.trailer == nil {
				b.trailer = http.Header{}
			}
			b.trailer[name] = nil
		}
	}
}

// begin makes the body part of a running call: moved is told of every byte, and the call's end ends a wait.
func (b *requestBody) begin(ctx context.Context, moved func()) { b.call, b.moved = ctx, moved }

// complete reports whether nothing of the body is left to be read.
func (b *requestBody) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole
}

func (b *requestBody) Read(p []byte) (int, error) {
	if b.instead != nil {
		n, err := b.instead.Read(p)
		if err == io.EOF {
			b.noteSent()
		}
		return n, err
	}
	if b.expect && b.answered.Load() && !b.asked.Load() {
		<-b.call.Done()
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.in.Read(p)
	if b.moved != nil {
		b.moved()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start.Add(p[:n])
	if b.start.N() == b.length {
		b.whole = true // HTTP/1 tells the end only when asked once more, which nobody need do
	}
	if err == io.EOF {
		b.whole = true
		for name := range b.trailer {
			b.trailer[name] = b.from[name]
		}
	} else if err != nil && !b.closed {
		b.err = err
	}
	b.fixture.Add(p[:n])
	if b.whole {
		b.fixture.End()
	}
	return n, err
}

// noteSent is called by whoever reads, of whom there is one.
func (b *requestBody) noteSent() {
	select {
	case <-b.sent:
	default:
		close(b.sent)
	}
}

// Close ends a read that is waiting. The transport does that when the upstream has broken off, so what the read then fails with
// says nothing of the client.
func (b *requestBody) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.in.Close()
}

// failed returns the error of reading from the client, if any.
func (b *requestBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// describeInput notes what the request's body was like.
func (c *call) describeInput(to *client) {
	b := &to.body
	b.mu.Lock()
	defer b.mu.Unlock()
	c.rec.BytesOut += b.start.N() // a WebSocket has counted its own
	c.rec.InputType = mediaType(to.r.Header.Get("Content-Type"))
	if c.rec.InputShape == nil && len(b.start.Kept()) > 0 && b.whole && b.start.All() && described(c.rec.InputType) {
		c.rec.InputShape = redact.Shape(b.start.Kept(), c.tool.InputFields)
	}
}

// taken returns what is kept of the body, and ends the keeping.
func (b *requestBody) taken() (start prefix.Buffer, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.start.Take(), b.whole
}

// described reports whether a body of this media type, as mediaType gives it, can be told by its fields.
func described(t string) bool {
	return t == "application/json" || t == "application/x-www-form-urlencoded" || strings.HasSuffix(t, "+json")
}
