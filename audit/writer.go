package audit

import (
	"crypto/ed25519"
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
	seq   uint64
	prev  [2 * sha256.Size]byte // in hexadecimal
	marks *marks                // nil: none

	batch []byte
	lines []int        // where the records of the batch end
	waits []chan error // who waits for the batch
	ticks <-chan time.Time
}

func newWriter(l *Log, to io.Writer, o Options) *writer {
	w := &writer{log: l, w: to, chain: o.Chain, prev: [2 * sha256.Size]byte([]byte(genesis))}
	if o.Chain && o.Process != nil {
		w.marks = newMarks(o.Process)
	}
	return w
}

func (w *writer) run() {
	defer close(w.log.done)
	if w.marks != nil {
		w.mark(KindStart)
		if !w.flush() {
			return
		}
		if w.marks.Key != nil {
			ticker := time.NewTicker(w.marks.Interval)
			defer ticker.Stop()
			w.ticks = ticker.C
		}
	}
	for w.next() {
	}
}

// next takes one thing from the queue, and reports false at the end.
func (w *writer) next() bool {
	select {
	case e, more := <-w.log.queue:
		if !more {
			if w.marks != nil {
				w.mark(KindEnd)
			}
			w.flush()
			return false
		}
		w.add(e)
		if w.marks.due() {
			w.mark(KindCheckpoint)
		}
	case <-w.ticks:
		if w.marks.since == 0 {
			return true
		}
		w.mark(KindCheckpoint)
	}
	return len(w.batch) < batchBytes && len(w.log.queue) > 0 || w.flush()
}

func (w *writer) add(e *entry) {
	start := len(w.batch)
	w.batch = appendRecord(w.batch, &e.record, w.link())
	if e.saved != nil {
		w.waits = append(w.waits, e.saved)
	}
	w.log.recycle(e)
	w.marks.count()
	w.end(start)
	w.lines = append(w.lines, len(w.batch))
}

// mark adds a line about the chain.
func (w *writer) mark(kind string) {
	start, l := len(w.batch), w.link()
	m := mark{kind: kind, chain: w.marks.chain, key: w.marks.Key, time: w.marks.now()}
	if kind == KindStart {
		m.version, m.previous = w.marks.Version, w.marks.Previous
	}
	w.batch = appendMark(w.batch, &m, l)
	w.marks.since = 0
	w.end(start)
	if m.signature != "" && w.marks.Told != nil {
		head := Head{m.chain, l.seq, string(w.prev[:])}
		w.marks.Told(Checkpoint{Head: head, Time: m.time, KeyID: KeyID(m.key.Public().(ed25519.PublicKey)), Signature: m.signature})
	}
}

// link is what joins the next line to the chain.
func (w *writer) link() link {
	if !w.chain {
		return link{}
	}
	w.seq++
	return link{seq: w.seq, prev: w.prev[:], lost: w.log.lost.Swap(0)}
}

// end ends the line that begins at start.
func (w *writer) end(start int) {
	if w.chain {
		sum := sha256.Sum256(w.batch[start:])
		hex.Encode(w.prev[:], sum[:])
	}
	w.batch = append(w.batch, '\n')
}

// flush writes the batch, however often that takes, and reports false if Close has given up.
func (w *writer) flush() bool {
	written, pause := 0, firstPause
	for {
		var err error
		if written < len(w.batch) {
			var n int
			n, err = w.write(w.batch[written:])
			written += n
		}
		if err == nil && written == len(w.batch) {
			if err = w.commit(); err == nil {
				break
			}
		}
		if err == nil {
			continue
		}
		failure := err // a variable of its own: it outlives the call, and the usual one does not
		w.log.failure.Store(&failure)
		if w.log.options.Failed != nil {
			w.log.options.Failed()
		}
		w.tell(&SinkError{err}) // whoever waits does not wait for a sink to recover
		if !w.wait(pause) {
			w.count(written)
			return false
		}
		pause = min(2*pause, longPause)
	}
	w.log.failure.Store(nil)
	if len(w.log.queue) == 0 {
		w.log.full.Store(false)
	}
	w.tell(nil)
	if w.log.options.Wrote != nil && len(w.batch) > 0 {
		w.log.options.Wrote(w.batch)
	}
	w.count(written)
	w.batch, w.lines = w.batch[:0], w.lines[:0]
	return true
}

// commit makes the batch safe where somebody waits for that.
func (w *writer) commit() error {
	c, ok := w.w.(Committer)
	if !ok || len(w.waits) == 0 {
		return nil
	}
	return c.Commit()
}

func (w *writer) tell(err error) {
	for _, wait := range w.waits {
		wait <- err
	}
	w.waits = w.waits[:0]
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

// count observes each record of the batch, of which so many bytes were written.
func (w *writer) count(written int) {
	for _, end := range w.lines {
		if end <= written {
			w.log.observe("written")
		} else {
			w.log.observe("error")
		}
	}
}
