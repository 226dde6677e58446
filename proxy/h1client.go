package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// h1Client is an intercepted connection of HTTP/1.1 as long as its requests are plain. It reads and answers them on one goroutine, where
// net/http has two that take turns at every request. The first request that is not plain, with all that follows, goes to
// net/http, which finds the connection as it came.
type h1Client struct {
	server  *innerServer
	tunnel  *tunnel
	handler func(context.Context, http.ResponseWriter, *http.Request)
	conn    net.Conn
	br      *bufio.Reader
	bw      *bufio.Writer
	w       answer
	slack   time.Duration // by which a deadline that is in force may be off

	ctx  context.Context // ends when the client is found gone
	gone context.CancelFunc

	bounded int64 // when the wait for a request was bounded, as clock tells it; 0: it is not
	posted  bool  // the last request was a POST

	mu      sync.Mutex
	phase   phase
	body    *lengthBody   // of the request that is being carried; nil: none
	watched chan struct{} // closed when the watch has ended; nil: there is none
}

// phase is what an h1Client is doing.
type phase int

const (
	idling  phase = iota // it waits for a request
	between              // a request is being read, or its answer ended
	busy                 // the handler has it
	closed               // by leave
)

func newH1Client(s *innerServer, t *tunnel, scheme string, conn net.Conn) *h1Client {
	k := &h1Client{
		server: s, tunnel: t, conn: conn, slack: s.idle / 8,
		br: bufio.NewReaderSize(conn, maxPlainRequest), bw: bufio.NewWriterSize(conn, 4<<10),
	}
	k.handler = func(ctx context.Context, w http.ResponseWriter, r *http.Request) { s.carry(ctx, t, scheme, w, r) }
	k.ctx, k.gone = context.WithCancel(context.Background())
	k.w.client, k.w.header = k, http.Header{}
	return k
}

// run carries requests. It returns what the client has sent of one that net/http is to carry, with all that follows; nil: the
// connection is over.
func (k *h1Client) run() (early []byte) {
	defer k.gone()
	k.tunnel.h1.Store(k)
	defer k.tunnel.h1.Store(nil)
	if k.tunnel.leaving.Load() {
		return nil
	}
	_ = k.conn.SetReadDeadline(time.Now().Add(k.server.timeout))
	for k.await() {
		head, _ := k.br.Peek(k.br.Buffered())
		if n := plainRequest(head); n == 0 {
			return k.handOn(head)
		}
		r, err := http.ReadRequest(k.br)
		if err != nil { // the reader has not been filled anew, so that head still stands
			return k.handOn(head)
		}
		if !k.carry(r) {
			return nil
		}
	}
	return nil
}

func (k *h1Client) handOn(head []byte) []byte {
	_ = k.conn.SetReadDeadline(time.Time{})
	_ = k.conn.SetWriteDeadline(time.Time{})
	return append([]byte(nil), head...)
}

// await waits for the first bytes of a request.
func (k *h1Client) await() bool {
	for {
		if k.br.Buffered() == 0 {
			if _, err := k.br.Peek(1); err != nil {
				return false
			}
		}
		if !k.posted {
			break
		}
		// An old client may end a form with a line end too many; net/http passes over it as well.
		head, _ := k.br.Peek(min(4, k.br.Buffered()))
		n := 0
		for n < len(head) && (head[n] == '\r' || head[n] == '\n') {
			n++
		}
		k.posted = false
		if _, _ = k.br.Discard(n); k.br.Buffered() > 0 {
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase == closed {
		return false
	}
	k.phase = between
	return true
}

// carry takes one request through the gates and reports whether the connection can carry another.
func (k *h1Client) carry(r *http.Request) bool {
	k.posted = r.Method == http.MethodPost
	var body *lengthBody
	if r.ContentLength > 0 {
		body = &lengthBody{src: k.br}
		body.left.Store(r.ContentLength)
		r.Body = body
		_ = k.conn.SetReadDeadline(time.Time{})
		k.bounded = 0
	}
	k.mu.Lock()
	k.phase, k.body = busy, body
	k.mu.Unlock()
	k.w.reset(r)
	whole := k.handle(r)
	k.unwatch()
	if !whole {
		if k.w.begun {
			_ = k.bw.Flush()
		}
		return false
	}
	if !k.w.finish() {
		if body != nil && body.left.Load() > 0 {
			k.linger()
		}
		return false
	}
	return k.idle()
}

// handle reports whether the answer is whole. It contains what the handler does not.
func (k *h1Client) handle(r *http.Request) (whole bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			k.server.proxy.log.Error("a connection panicked")
		}
	}()
	k.handler(k.ctx, &k.w, r)
	return true
}

// idle makes the connection wait for its next request, and reports whether it may.
func (k *h1Client) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase = idling; k.tunnel.leaving.Load() {
		return false
	}
	if now := clock(); k.bounded == 0 || now-k.bounded > int64(k.slack) {
		_ = k.conn.SetReadDeadline(time.Now().Add(k.server.idle))
		k.bounded = now
	}
	return true
}

// linger reads on for a moment when the client was answered before its body was read: closing with bytes unread would reset the
// connection, and the answer with it.
func (k *h1Client) linger() {
	raw := rawConn(k.conn) // another goroutine may still be reading the body
	_ = raw.SetReadDeadline(time.Now().Add(lingering))
	if w, ok := k.conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(raw, 256<<10))
}

// leave ends the connection if nothing is being carried. Else it ends with the answer, since its tunnel is leaving.
func (k *h1Client) leave() {
	k.mu.Lock()
	idle := k.phase == idling
	if idle {
		k.phase = closed
	}
	k.mu.Unlock()
	if idle {
		_ = k.conn.Close()
	}
}

// watch begins to look for the client's end while a request is carried that takes its time; the registry's sweep calls it.
// Nobody else reads then: the request is read whole.
func (k *h1Client) watch() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != busy || k.watched != nil || k.body != nil && k.body.left.Load() > 0 {
		return
	}
	k.watched = make(chan struct{})
	_ = k.conn.SetReadDeadline(time.Time{})
	go func(watched chan struct{}) {
		defer close(watched)
		_, err := k.br.Peek(k.br.Buffered() + 1)
		if err != nil && err != bufio.ErrBufferFull && !errors.Is(err, os.ErrDeadlineExceeded) {
			k.gone()
		}
	}(k.watched)
}

// unwatch ends the watch, and keeps another from beginning.
func (k *h1Client) unwatch() {
	k.mu.Lock()
	k.phase = between
	watched := k.watched
	k.watched = nil
	k.mu.Unlock()
	if watched != nil {
		_ = k.conn.SetReadDeadline(time.Unix(1, 0))
		<-watched
		_ = k.conn.SetReadDeadline(time.Time{})
		k.bounded = 0
	}
}

// endWhenIdle lets the connection end once nothing is being carried. net/http ends those that it has by itself.
func (t *tunnel) endWhenIdle() {
	t.leaving.Store(true)
	if k := t.h1.Load(); k != nil {
		k.leave()
	}
}

// watchClient is called when nothing has moved for a while.
func (t *tunnel) watchClient() {
	if k := t.h1.Load(); k != nil {
		k.watch()
	}
}

// lengthBody is a request's body of a known length.
type lengthBody struct {
	src  *bufio.Reader
	left atomic.Int64
}

// Read returns io.EOF with the last byte: nobody reads on when the request is over.
func (b *lengthBody) Read(p []byte) (int, error) {
	left := b.left.Load()
	if left == 0 {
		return 0, io.EOF
	}
	n, err := b.src.Read(p[:min(int64(len(p)), left)])
	switch left = b.left.Add(-int64(n)); {
	case left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close does nothing: what is left of a body ends the connection.
func (b *lengthBody) Close() error { return nil }
