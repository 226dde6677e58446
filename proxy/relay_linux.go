package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bulkAfter is how much one direction carries by copying before it is moved by splice. Splicing costs half the CPU of
// copying for bulk and more for small messages; it also takes a pipe, which only a direction with bytes in flight holds
// here, since pipes count against a kernel limit per user that every sidecar of a node may share.
const (
	bulkAfter  = 256 << 10
	bufferSize = 32 << 10
	pipeSize   = 256 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// direction is one half of a relay. It waits for bytes without holding a buffer or a pipe.
type direction struct {
	dst      *net.TCPConn
	src, out syscall.RawConn
	buf      *[bufferSize]byte
	pipe     *pipe
	left     int // bytes in the pipe
	n        int
	err      error
}

// transfer copies src to dst until the end of the stream, which is no error, and adds to n what it moved.
func transfer(dst, src *net.TCPConn, n *int64, o *open) error {
	in, err := src.SyscallConn()
	if err != nil {
		return err
	}
	out, err := dst.SyscallConn()
	if err != nil {
		return err
	}
	d := &direction{dst: dst, src: in, out: out}
	read, splice := d.fill, false
	for moved := 0; ; {
		if splice {
			err = d.spliceOnce(read)
		} else {
			err = d.copyOnce(read)
		}
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		o.touch()
		*n += int64(d.n)
		if moved += d.n; !splice && moved >= bulkAfter {
			read, splice = d.fillPipe, true
		}
	}
}

// copyOnce waits for bytes, reads what is there into a pooled buffer and writes it.
func (d *direction) copyOnce(fill func(uintptr) bool) error {
	if err := d.src.Read(fill); err != nil {
		return err
	}
	if d.err != nil || d.n == 0 {
		d.release()
		return d.end()
	}
	_, err := d.dst.Write(d.buf[:d.n])
	d.release()
	return err
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
	d.n, d.err = retry(func() (int, error) { return unix.Read(int(fd), d.buf[:]) })
	if d.err == unix.EAGAIN {
		d.release()
		return false
	}
	return true
}

// spliceOnce waits for bytes and moves them through a pipe without copying.
func (d *direction) spliceOnce(fill func(uintptr) bool) error {
	if err := d.src.Read(fill); err != nil {
		return err
	}
	if errors.Is(d.err, errNoPipe) {
		return d.copyOnce(d.fill)
	}
	if d.err != nil || d.n == 0 {
		d.pipe.release(d.err == nil)
		return d.end()
	}
	d.left = d.n
	for d.left > 0 {
		if err := d.out.Write(d.drainPipe); err != nil {
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
	d.n, d.err = retry(func() (int, error) {
		n, err := unix.Splice(int(fd), nil, p.w, nil, pipeSize, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	if d.err == unix.EAGAIN {
		p.release(true)
		return false
	}
	return true
}

func (d *direction) drainPipe(fd uintptr) bool {
	var n int
	n, d.err = retry(func() (int, error) {
		n, err := unix.Splice(d.pipe.r, nil, int(fd), nil, d.left, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	if d.err == unix.EAGAIN {
		d.err = nil
		return false
	}
	d.left -= n
	return true
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func isNotConnected(err error) bool { return errors.Is(err, unix.ENOTCONN) }
