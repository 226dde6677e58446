package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"
)

// genesis is the prev_hash of a chain's first line.
var genesis = strings.Repeat("0", 2*sha256.Size)

const (
	batchBytes = 64 << 10 // lines are joined up to this size when they arrive faster than the sink takes them
	firstPause = 20 * time.Millisecond
	longPause  = time.Second
)

// writer is the goroutine of a Log.
type writer struct {
	log   *Log
	w     io.Writer
	chain bool
	prev  [2 * sha256.Size]byte // in hexadecimal

	batch []byte
	lines []int // where the lines of the batch end
}

func (w *writer) run() {
	defer close(w.log.done)
	for e := range w.log.queue {
		w.add(e)
		if len(w.batch) >= batchBytes || len(w.log.queue) == 0 {
			if !w.flush() {
				return
			}
		}
	}
	w.flush()
}

func (w *writer) add(e *entry) {
	start := len(w.batch)
	var l link
	if w.chain {
		l = link{seq: e.seq, prev: w.prev[:]}
	}
	w.batch = appendRecord(w.batch, &e.record, l)
	w.log.recycle(e)
	if w.chain {
		sum := sha256.Sum256(w.batch[start:])
		hex.Encode(w.prev[:], sum[:])
	}
	w.batch = append(w.batch, '\n')
	w.lines = append(w.lines, len(w.batch))
}

// flush writes the batch, however often that takes, and reports false if Close has given up.
func (w *writer) flush() bool {
	written, pause := 0, firstPause
	for written < len(w.batch) {
		n, err := w.write(w.batch[written:])
		if written += n; err == nil {
			continue
		}
		failure := err // a variable of its own: it outlives the call, and the usual one does not
		w.log.failure.Store(&failure)
		if written < len(w.batch) && !w.wait(pause) {
			w.count(written)
			return false
		}
		pause = min(2*pause, longPause)
	}
	w.log.failure.Store(nil)
	if len(w.log.queue) == 0 {
		w.log.full.Store(false)
	}
	w.count(written)
	w.batch, w.lines = w.batch[:0], w.lines[:0]
	return true
}

// write is the sink's Write, whose answer is made to make sense.
func (w *writer) write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if n < 0 || n > len(b) {
		n = 0 // a broken sink; see io.Writer
	}
	if err == nil && n == 0 {
		err = io.ErrShortWrite
	}
	return n, err
}

// wait reports false if Close gave up.
func (w *writer) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.log.abandon:
		return false
	}
}

// count observes each line of the batch, of which so many bytes were written.
func (w *writer) count(written int) {
	for _, end := range w.lines {
		if end <= written {
			w.log.observe("written")
		} else {
			w.log.observe("error")
		}
	}
}
