package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// front is the listener that net/http accepts from. It looks at what a client sends first, without taking it from the
// socket: a CONNECT of the plainest form goes to the gates at once, and everything else to net/http and goproxy, which find
// the connection as it came. A tunnel needs little of what they do, and costs a quarter less without.
type front struct {
	*crowd
	proxy    *Proxy
	listener string
	timeout  time.Duration // for a client to begin to speak
	max      int           // of a head, in bytes

	passed chan accepted
	closed chan struct{}

	mu      sync.Mutex
	over    bool
	waiting map[*net.TCPConn]struct{} // for their first bytes
	calls   sync.WaitGroup            // on their way through the gates
}

// accepted is what net/http's Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

func newFront(p *Proxy, listener string, ln *crowd, timeout time.Duration, maxHeader int) *front {
	return &front{
		crowd: ln, proxy: p, listener: listener, timeout: timeout, max: min(maxHeader, maxPlainHead),
		passed: make(chan accepted), closed: make(chan struct{}), waiting: map[*net.TCPConn]struct{}{},
	}
}

// run accepts until the listener is closed. An error goes to net/http, which waits before it accepts again if it may pass.
func (f *front) run() {
	for {
		conn, err := f.crowd.Accept()
		if tcp, ok := conn.(*net.TCPConn); ok {
			go f.meet(tcp)
			continue
		}
		if !f.pass(conn, err) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Accept returns the next connection that is net/http's business.
func (f *front) Accept() (net.Conn, error) {
	select {
	case a := <-f.passed:
		return a.conn, a.err
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept, and closes the connections whose clients have not spoken.
func (f *front) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil
	}
	f.over = true
	close(f.closed)
	for conn := range f.waiting {
		_ = conn.Close()
	}
	return f.crowd.Close()
}

// wait returns when every call that was begun here is recorded or a tunnel of the registry, or ctx ends.
func (f *front) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		<-f.closed // by the server; none begins after that
		f.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (f *front) pass(conn net.Conn, err error) bool {
	select {
	case f.passed <- accepted{conn, err}:
		return true
	case <-f.closed:
		if conn != nil {
			f.drop(conn)
		}
		return false
	}
}

func (f *front) drop(conn net.Conn) {
	_ = conn.Close()
	f.note(nil, http.StateClosed)
}

// meet waits for the client's first bytes and sends the connection where it belongs.
func (f *front) meet(conn *net.TCPConn) {
	if !f.enter(conn) {
		f.drop(conn)
		return
	}
	a, err := f.look(conn)
	on := f.leave(conn, a != nil)
	switch {
	case a != nil && on:
		f.carry(conn, a)
	case !on, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		f.drop(conn)
	default:
		f.pass(conn, nil)
	}
}

func (f *front) enter(conn *net.TCPConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.waiting[conn] = struct{}{}
	}
	return !f.over
}

// leave reports whether the connection was not closed meanwhile. One that is a call counts as such from here on.
func (f *front) leave(conn *net.TCPConn, call bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, conn)
	if call && !f.over {
		f.calls.Add(1)
	}
	return !f.over
}

// look returns the plain CONNECT that the connection begins with, which has been read then, or nil, and nothing has been.
func (f *front) look(conn *net.TCPConn) (*ask, error) {
	p := peekers.Get().(*peeker)
	defer p.release()
	_ = conn.SetReadDeadline(time.Now().Add(f.timeout))
	head, err := p.peek(conn)
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	a, n := plainConnect(head[:min(len(head), f.max)])
	if a == nil {
		return nil, nil
	}
	_, err = io.ReadFull(conn, head[:n]) // it is there: nobody else reads
	if err != nil {
		return nil, net.ErrClosed
	}
	return a, nil
}

// carry takes a tunnel through the gates. What a client has sent after its head is still in the socket.
func (f *front) carry(conn *net.TCPConn, a *ask) {
	defer f.calls.Done()
	defer f.note(nil, http.StateHijacked)
	c := f.proxy.begin(f.listener, "tunnel")
	defer c.finishUnlessHanded()
	defer func() {
		if recover() != nil { // contain has said why; no server guards this goroutine
			reset(conn)
		}
	}()
	defer c.contain()
	c.open(a)(conn, nil)
}
