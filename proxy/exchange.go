package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/broker"
)

// sentWait is how long the end of a response waits for the word that its request is sent, so that the connection can be used again.
const sentWait = 50 * time.Millisecond

// exchange is one request and its response on a connection of its own. The response is read by the call's goroutine; a
// request's body, if there is one, is written by another, so that an answer is noticed while the request is still being sent.
type exchange struct {
	conn   *h1Conn
	pool   *h1Pool
	out    *http.Request
	to     *client
	stop   func() bool // of what the call's end would do to the connection
	upload *upload     // nil without a body
	heard  bool        // something of an answer has come

	body  io.ReadCloser // the response's
	whole bool          // its end was read
	again bool          // the connection may carry another request
	over  bool          // the connection is no longer this exchange's
}

// roundTrip sends a request and returns the header of its answer. The answer's body must be closed. A connection that the
// upstream closed while it idled is no error of the call's as long as the request can be sent again unnoticed.
//
// With chosen, nothing is sent to an upstream that did not choose HTTP/1.1 when TLS offered it (errUnchosen).
func (p *h1Pool) roundTrip(ctx context.Context, c *call, to *client, out *http.Request, cred *broker.Credential, chosen bool) (*http.Response, error) {
	o := originOf(c, out)
	for {
		conn, err := p.get(ctx, o, &c.attempts)
		if err != nil {
			return nil, err
		}
		if chosen && !conn.chosen {
			p.put(conn)
			return nil, errUnchosen
		}
		c.reached(conn.conn, c.release)
		x := &exchange{conn: conn, pool: p, out: out, to: to}
		x.stop = context.AfterFunc(ctx, x.cut)
		res, err := x.run(cred)
		if err == nil {
			return res, nil
		}
		x.fail()
		if !conn.used || x.heard || !repeatable(out) || ctx.Err() != nil {
			return nil, err
		}
	}
}

var errUnchosen = errors.New("the upstream did not choose HTTP/1.1")

// repeatable reports whether sending a request twice does what sending it once does (RFC 9110, section 9.2.2), and there is a second
// copy of it.
func repeatable(out *http.Request) bool {
	return out.Body == nil && (out.Method == http.MethodGet || out.Method == http.MethodHead || out.Method == http.MethodOptions)
}

// cut runs when the call is ended from here or its client leaves.
func (x *exchange) cut() {
	x.conn.abort()
	x.to.interrupt()
}

func (x *exchange) run(cred *broker.Credential) (*http.Response, error) {
	if err := writeHead(x.conn.bw, x.out); err != nil {
		return nil, err
	}
	if x.out.Body == nil {
		if err := x.conn.bw.Flush(); err != nil {
			return nil, err
		}
	} else {
		x.upload = newUpload(x.conn, x.out, &x.to.body)
		go x.upload.run()
	}
	res, err := x.answer(cred)
	if err != nil {
		return nil, err
	}
	if x.upload != nil {
		x.upload.answered(false)
	}
	x.body, x.whole = res.Body, res.Body == http.NoBody
	x.again = !res.Close && res.StatusCode >= http.StatusOK
	res.Body = x
	if x.whole {
		x.release()
	}
	return res, nil
}

// answer reads headers until the final one.
func (x *exchange) answer(cred *broker.Credential) (*http.Response, error) {
	for n := 0; ; n++ {
		if _, err := x.conn.br.Peek(1); err != nil {
			return nil, err
		}
		x.heard = true
		res, err := x.conn.response(x.out)
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errUnasked
		case res.StatusCode < 100 || res.StatusCode > 199:
			return res, nil
		case n > maxInformational:
			return nil, errTooInformed
		}
		if x.upload != nil && res.StatusCode == http.StatusContinue {
			x.upload.answered(true)
		}
		if err := x.inform(res, cred); err != nil {
			return nil, err
		}
	}
}

// inform relays an informational response (RFC 9110, section 15.2) but 100, which net/http sends when the body is read.
func (x *exchange) inform(res *http.Response, cred *broker.Credential) error {
	if res.StatusCode == http.StatusContinue {
		return nil
	}
	if cred != nil {
		cred.ScrubHeader(res.Header)
	}
	return x.to.inform(res.StatusCode, res.Header)
}

// fail ends an exchange that has no answer. An upload that waits for the client's body is not waited for: it ends with the
// client's connection, which a request that was not read whole does not outlive.
func (x *exchange) fail() {
	x.stop()
	x.conn.abort()
	if x.upload != nil {
		x.upload.answered(false)
	}
}

// Read reads the response's body.
func (x *exchange) Read(p []byte) (int, error) {
	if x.over {
		return 0, io.EOF
	}
	n, err := x.body.Read(p)
	if err == io.EOF {
		x.whole = true
		x.release()
	}
	return n, err
}

// release gives the connection back as soon as both sides are through with it: before the client has the last of the response,
// or its next request, coming at once, would find none.
func (x *exchange) release() {
	if x.upload == nil && x.again {
		_ = x.Close()
	}
}

// Close ends the exchange. Its connection is used again if both sides are through with it.
func (x *exchange) Close() error {
	if x.over {
		return nil
	}
	x.over = true
	ended := !x.stop() // then the connection is being closed
	if !ended && x.whole && x.again && x.sent() && x.conn.br.Buffered() == 0 {
		x.pool.put(x.conn)
	} else if ended || !x.whole {
		x.conn.abort()
	} else {
		_ = x.conn.conn.Close()
	}
	return nil
}

// sent reports whether the request has gone out whole.
func (x *exchange) sent() bool { return x.upload == nil || x.upload.wait(x.to.body.complete()) }
