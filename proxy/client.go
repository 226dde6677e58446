package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/prefix"
)

const (
	// maxInformational bounds the informational responses of one call; net/http leaves that to whoever relays them.
	maxInformational = 16
	// informTimeout bounds the writing of one, which the upstream's reader waits for.
	informTimeout = 5 * time.Second
	// drainable is how long a refused body may be to be read rather than end the connection, and drainTime how long that
	// may hold up the refusal.
	drainable = 16 << 10
	drainTime = 100 * time.Millisecond
	// lingering is how long a client may take to send what was on its way when it was answered.
	lingering = 500 * time.Millisecond
)

var errTooInformed = errors.New("the upstream sends informational responses without end")

// client is the client's end of one request. The transport's goroutines may outlive a round trip, and must not touch the
// writer of a handler that has gone on or returned; what they do to it goes through here.
type client struct {
	w    http.ResponseWriter
	rc   http.ResponseController
	r    *http.Request
	body requestBody
	idle time.Duration
	h1   bool

	logged  bool           // the log asks for the bodies
	res     *http.Response // the upstream's; nil: there is none
	back    prefix.Buffer  // of what the tool gets of its body
	arrived bool           // that body was read to its end

	informing sync.Mutex
	informed  int
	answering bool // no more informational responses

	reading sync.Mutex
	left    bool // the handler is done
}

func newClient(w http.ResponseWriter, r *http.Request, idle time.Duration) *client {
	k := &client{w: w, rc: *http.NewResponseController(w), r: r, idle: idle, h1: r.ProtoMajor == 1}
	k.body.open(r)
	return k
}

// inform passes on an informational response. It is called by the upstream's reader.
func (k *client) inform(code int, header http.Header) error {
	k.informing.Lock()
	defer k.informing.Unlock()
	if k.answering || !k.r.ProtoAtLeast(1, 1) { // RFC 9110, section 15.2: none for HTTP/1.0
		return nil
	}
	if k.informed++; k.informed > maxInformational {
		return errTooInformed
	}
	h := k.w.Header()
	incoming(h, header)
	_ = k.rc.SetWriteDeadline(time.Now().Add(informTimeout))
	k.w.WriteHeader(code)
	clear(h)
	return nil
}

// answer ends the time of informational responses. From here on the writer is the handler's.
func (k *client) answer() {
	k.informing.Lock()
	defer k.informing.Unlock()
	k.answering = true
}

// arm bounds the writes that follow: a client that stops reading is not waited for for ever. The bound is longer than the
// watchdog's, so that a stream that moves renews it before it ends.
func (k *client) arm() { _ = k.rc.SetWriteDeadline(time.Now().Add(k.idle * 5 / 4)) }

// writeHeader begins the answer. What is left of a body that was not read would be taken for the next request, so the
// connection ends with the answer; net/http does that only as long as the rest comes in time. Saying so also keeps net/http from
// reading the rest before it writes, for which it would wait as long as the client likes. An HTTP/1.0 request may
// have a body that net/http does not know of (it ignores Transfer-Encoding there, RFC 9112, section 6.1).
func (k *client) writeHeader(status int) {
	if k.h1 && (!k.body.complete() || !k.r.ProtoAtLeast(1, 1)) {
		k.w.Header()["Connection"] = []string{"close"}
	}
	k.arm()
	k.w.WriteHeader(status)
}

// drain reads a short body that nobody wants, if it is there already, so that a refusal does not cost the connection.
func (k *client) drain() {
	if !k.h1 || k.body.complete() || k.r.ContentLength < 0 || k.r.ContentLength > drainable || k.r.Header.Get("Expect") != "" {
		return
	}
	_ = k.rc.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, &k.body, drainable)
	_ = k.rc.SetReadDeadline(time.Time{})
}

// interrupt ends a read that waits for a silent client. The transport gives up a call only when its read of the body has
// returned, whatever became of the call's context.
func (k *client) interrupt() {
	k.reading.Lock()
	defer k.reading.Unlock()
	if !k.left && !k.body.complete() {
		_ = k.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// leave bounds what net/http does when the handler has returned: it waits for what is left of the body.
func (k *client) leave() {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.left = true
	if k.h1 && !k.body.complete() {
		_ = k.rc.SetReadDeadline(time.Now().Add(lingering))
	}
}

// abort ends an answer that broke off so that the client can tell: net/http cuts the connection or resets the stream. A
// client of HTTP/1.0 takes the connection's end for the body's, so it gets a reset.
func (c *call) abort(k *client) {
	if !k.r.ProtoAtLeast(1, 1) {
		if conn, _, err := k.rc.Hijack(); err == nil {
			conn = unguarded(conn)
			reset(conn)
			if c.within != nil { // net/http forgets a connection that was taken from it
				c.within.close(conn)
			}
		}
	}
	panic(http.ErrAbortHandler)
}

// reset closes a connection so that its peer does not take what it got for the whole. It does not block.
func reset(conn net.Conn) {
	raw := rawConn(conn)
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = raw.Close()
}

// rawConn returns the socket below guard, TLS and tag.
func rawConn(conn net.Conn) net.Conn {
	for conn = unguarded(conn); ; {
		switch t := conn.(type) {
		case interface{ NetConn() net.Conn }: // TLS, of which there may be two: the upstream's in the gateway's
			conn = t.NetConn()
		case *taggedConn:
			conn = t.Conn
		default:
			return conn
		}
	}
}
