package proxy

import "sync"

// TLS reads whole records into memory of its own, so a direction that comes out of it cannot wait on the socket alone, and neither parks
// nor splices. While it idles it holds a goroutine and a buffer of this size.
const idleBuffer = 4 << 10

// maxRecord is what one record of TLS holds at most (RFC 8446, section 5.1).
const maxRecord = 16 << 10

var idleBuffers = sync.Pool{New: func() any { return new([idleBuffer]byte) }}

// unsealOnce waits for bytes inside TLS and passes on what a read gives. A read that fills the small buffer has more behind it as a
// rule, which a large one takes at once.
func (d *direction) unsealOnce() error {
	if d.more {
		buf := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(buf)
		return d.unseal(buf[:])
	}
	buf := idleBuffers.Get().(*[idleBuffer]byte)
	defer idleBuffers.Put(buf)
	return d.unseal(buf[:])
}

func (d *direction) unseal(buf []byte) error {
	n, err := d.src.Read(buf)
	d.n, d.more = n, n == idleBuffer && len(buf) == idleBuffer || n >= maxRecord
	if n > 0 {
		if failed := d.pass(buf[:n]); failed != nil {
			return failed
		}
	}
	return err // io.EOF is the end that TLS tells; a socket that merely ends is an error to it
}
