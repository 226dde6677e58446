package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bulkAfter is how many bytes in a row, in full buffers, make a direction bulk: it is moved by splice then, until little comes
// at a time again. Splicing costs half the CPU of copying for bulk and more for small messages. It also takes a pipe; one of 1 MiB needs 0.7 times the CPU per byte of one
// of 256 KiB under load, and counts against a kernel limit per user that every sidecar of a node may share, so that only a
// direction with bytes in flight holds one here.
const (
	bulkAfter  = 256 << 10
	bufferSize = 32 << 10
	pipeSize   = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// direction is one half of a relay. It waits for bytes without holding a buffer or a pipe, first on a goroutine, and after
// a pause in the parking lot, without one.
type direction struct {
	relay   *relay
	dst     duplex
	src     duplex
	in, out syscall.RawConn // nil where TLS is spoken, which its own goroutine waits for
	total   *int64          // bytes moved, of the record
	streak  int             // bytes that came in full buffers, up to bulkAfter
	short   int             // reads of less, in a row
	guard   *sniGuard       // of the client's first bytes; nil when they have been judged
	holding atomic.Bool
	state   atomic.Int32
	spot    uint64 // in the parking lot; guarded by its lock

	readable            func(uintptr) bool // fill, bound once: it is needed for every read
	intoPipe, outOfPipe func(uintptr) bool // fillPipe and drainPipe, bound when they are first needed
	buf                 *[bufferSize]byte
	pipe                *pipe
	left                int // bytes in the pipe
	n                   int
	more                bool // of TLS: the last read was such that another record's worth is likely
	err                 error
}

// The states of a direction. Only the goroutine that runs it leaves running.
const (
	unstarted int32 = iota
	running
	pausing // told to park, by a read deadline in the past
	parked
	over
)

// start begins to move bytes both ways, early ones of the client first.
func (r *relay) start(early []byte) {
	client, cerr := descriptor(r.client)
	upstream, uerr := descriptor(r.upstream)
	err := errors.Join(cerr, uerr)
	r.up.between(r, r.client, r.upstream, client, upstream, &r.call.rec.BytesOut)
	r.down.between(r, r.upstream, r.client, upstream, client, &r.call.rec.BytesIn)
	r.up.guard = &r.sni
	r.up.begin(early, err)
	r.down.begin(nil, err)
}

// descriptor returns the socket's own, by which its bytes can be moved as they are, or nil if they are inside TLS.
func descriptor(conn duplex) (syscall.RawConn, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return tcp.SyscallConn()
	}
	return nil, nil
}

// between sets the fields one by one: somebody who cuts the tunnel may look at the others meanwhile.
func (d *direction) between(r *relay, src, dst duplex, in, out syscall.RawConn, total *int64) {
	d.relay, d.src, d.dst, d.in, d.out, d.total = r, src, dst, in, out, total
	d.readable = d.fill
}

// begin runs the direction on a goroutine of its own, unless it is over already.
func (d *direction) begin(early []byte, err error) {
	d.state.Store(running)
	switch {
	case err != nil:
		d.finish(err)
	case len(early) > 0:
		go func() {
			if err := d.pass(early); err != nil {
				d.finish(err)
				return
			}
			d.run()
		}()
	default:
		go d.run()
	}
}

// run moves bytes until the end of the stream, an error, or a pause.
func (d *direction) run() {
	for {
		var err error
		switch {
		case d.in == nil:
			err = d.unsealOnce()
		case d.streak >= bulkAfter && d.out != nil:
			err = d.spliceOnce()
		default:
			err = d.copyOnce()
		}
		switch {
		case err == nil:
			d.relay.touch()
			d.measure()
		case err == io.EOF:
			d.finish(nil)
			return
		case errors.Is(err, os.ErrDeadlineExceeded) && d.holding.Load():
			d.finish(errHelloSlow)
			return
		case errors.Is(err, os.ErrDeadlineExceeded) && d.state.Load() == pausing:
			_ = d.src.SetReadDeadline(time.Time{})
			if lot.park(d) {
				return // whoever drives d out runs it again
			}
		default:
			d.finish(err)
			return
		}
	}
}

// measure counts towards bulk, and out of it: one short read is a scheduler's doing, several in a row are small messages.
func (d *direction) measure() {
	if d.n >= bufferSize {
		d.streak, d.short = min(d.streak+d.n, bulkAfter), 0
	} else if d.short++; d.short >= 8 {
		d.streak = 0
	}
}

func (d *direction) finish(err error) {
	d.state.Store(over)
	d.relay.ended(d.dst, err)
}

// pause asks a direction that waits on its goroutine to park. Its fields may be read only once it runs: start sets them meanwhile.
func (d *direction) pause() {
	if d.state.Load() == running && d.in != nil && !d.holding.Load() && d.state.CompareAndSwap(running, pausing) {
		_ = d.src.SetReadDeadline(time.Unix(1, 0))
	}
}

// wake drives a parked direction out, so that it sees what was done to its connections.
func (d *direction) wake() { lot.wake(d) }

// copyOnce waits for bytes, reads what is there into a pooled buffer and writes it.
func (d *direction) copyOnce() error {
	if err := d.in.Read(d.readable); err != nil {
		return err
	}
	if d.err != nil || d.n == 0 {
		d.release()
		return d.end()
	}
	err := d.pass(d.buf[:d.n])
	d.release()
	return err
}

// pass writes bytes that were read, past the guard while there is one.
func (d *direction) pass(b []byte) error {
	if d.guard != nil {
		var err error
		if b, err = d.judge(b); err != nil || b == nil {
			return err
		}
	}
	n, err := d.dst.Write(b)
	*d.total += int64(n)
	return err
}

// judge feeds the guard. While it holds bytes back, the rest of them has a deadline.
func (d *direction) judge(b []byte) ([]byte, error) {
	pass, done, err := d.guard.feed(b)
	switch {
	case done:
		d.guard.held, d.guard = nil, nil
		if d.holding.Swap(false) {
			_ = d.src.SetReadDeadline(time.Time{})
		}
	case !d.holding.Swap(true):
		_ = d.src.SetReadDeadline(time.Now().Add(d.guard.limit))
	}
	return pass, err
}

func (d *direction) end() error {
	if d.err != nil {
		return d.err
	}
	return io.EOF
}

func (d *direction) release() {
	if d.buf != nil {
		buffers.Put(d.buf)
		d.buf = nil
	}
}

// fill reads without blocking; false makes the runtime wait until the socket is readable.
func (d *direction) fill(fd uintptr) bool {
	if d.buf == nil {
		d.buf = buffers.Get().(*[bufferSize]byte)
	}
	for d.err = unix.EINTR; d.err == unix.EINTR; {
		d.n, d.err = unix.Read(int(fd), d.buf[:])
	}
	if d.err == unix.EAGAIN {
		d.release()
		return false
	}
	return true
}

// spliceOnce waits for bytes and moves them through a pipe without copying.
func (d *direction) spliceOnce() error {
	if d.intoPipe == nil {
		d.intoPipe, d.outOfPipe = d.fillPipe, d.drainPipe
	}
	if err := d.in.Read(d.intoPipe); err != nil {
		return err
	}
	if errors.Is(d.err, errNoPipe) {
		return d.copyOnce()
	}
	if d.err != nil || d.n == 0 {
		d.pipe.release(d.err == nil)
		return d.end()
	}
	d.left, *d.total = d.n, *d.total+int64(d.n)
	for d.left > 0 {
		if err := d.out.Write(d.outOfPipe); err != nil {
			d.pipe.release(false)
			return err
		}
		if d.err != nil {
			d.pipe.release(false)
			return d.err
		}
	}
	d.pipe.release(true)
	return nil
}

func (d *direction) fillPipe(fd uintptr) bool {
	p, err := takePipe()
	if err != nil {
		d.err = errNoPipe
		return true
	}
	d.pipe = p
	d.n, d.err = splice(int(fd), p.w, pipeSize)
	if d.err == unix.EAGAIN {
		p.release(true)
		return false
	}
	return true
}

func (d *direction) drainPipe(fd uintptr) bool {
	var n int
	n, d.err = splice(d.pipe.r, int(fd), d.left)
	if d.err == unix.EAGAIN {
		d.err = nil
		return false
	}
	d.left -= n
	return true
}

// splice moves at most n bytes from one descriptor to another without copying and without waiting (splice(2)).
func splice(from, to, n int) (int, error) {
	for {
		moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int(moved), err
		}
	}
}

func isNotConnected(err error) bool { return errors.Is(err, unix.ENOTCONN) }
