package audit

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Log orders records, chains them and writes them to one sink. Create it with New. All methods are safe for concurrent
// use.
type Log struct {
	observe func(string)
	options Options
	queue   chan *entry
	pool    sync.Pool

	mu     sync.Mutex // orders queueing, and guards closed
	closed bool
	lost   atomic.Uint64 // records that were dropped and of which no line tells yet

	full    atomic.Bool           // records were dropped and the queue has not drained since
	failure atomic.Pointer[error] // of the last write

	closing  sync.Once
	closeErr error
	abandon  chan struct{} // closed when Close gives up
	done     chan struct{} // closed when the writer has ended
}

type entry struct {
	record Record
	saved  chan error // told when the line is safe; nil: nobody waits
}

// Options of a Log.
type Options struct {
	Chain   bool                // add seq and prev_hash (SHA-256 over the previous line's bytes)
	Buffer  int                 // records that may wait for a slow sink; 0: 4096
	Process *Process            // with Chain: begin and end the chain with lines that say so; nil: records alone
	Observe func(result string) // "written", "dropped" or "error", once a record; may be nil
	Wrote   func(lines []byte)  // is given the whole lines that the sink has taken; it must neither block nor keep them; may be nil
	Failed  func()              // a write or sync of the sink failed; may be nil
}

// Committer is a sink that can tell when what it was given will survive a crash. A sink that is none is taken to have it when it
// has taken it.
type Committer interface{ Commit() error }

// New starts a log on w. Writes happen on a goroutine of its own, so that a slow sink does not hold up calls. A write
// that fails is tried again, with growing pauses, from the byte where it stopped; meanwhile records wait, and those
// that find the queue full are dropped.
//
// With Chain, seq numbers the lines and prev_hash joins them; the first has 64 zeros. A line that follows dropped records
// says in lost how many.
func New(w io.Writer, o Options) *Log {
	if o.Buffer <= 0 {
		o.Buffer = 4096
	}
	if o.Observe == nil {
		o.Observe = func(string) {}
	}
	l := &Log{
		observe: o.Observe,
		options: o,
		queue:   make(chan *entry, o.Buffer),
		pool:    sync.Pool{New: func() any { return new(entry) }},
		abandon: make(chan struct{}),
		done:    make(chan struct{}),
	}
	go newWriter(l, w, o).run()
	return l
}

// Write queues the record and never blocks. A full queue drops it, which Ready then reports until the queue has drained.
// The caller must not change the record's slices and map afterwards. After Close every record is dropped.
func (l *Log) Write(r Record) {
	e := l.pool.Get().(*entry)
	e.record = r
	if !l.queued(e) {
		l.recycle(e)
	}
}

// Save writes the record and returns when it is on the sink, and on disk where the sink is a Committer. Errors: *SinkError,
// ErrFull, ctx's; the line may be written all the same after the last of them.
func (l *Log) Save(ctx context.Context, r Record) error {
	saved := make(chan error, 1)
	if !l.queued(&entry{record: r, saved: saved}) {
		return ErrFull
	}
	select {
	case err := <-saved:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) queued(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		select {
		case l.queue <- e:
			return true
		default:
			l.full.Store(true)
		}
	}
	l.lost.Add(1)
	l.observe("dropped")
	return false
}

// tell ends a wait for the entry's line.
func (e *entry) tell(err error) {
	if e.saved != nil {
		e.saved <- err
	}
}

func (l *Log) recycle(e *entry) {
	*e = entry{}
	l.pool.Put(e)
}

// ErrFull is what Ready returns while records are dropped because the sink is too slow.
var ErrFull = errors.New("audit: records are being dropped: the sink is too slow")

// SinkError is what Ready returns after a write that failed. Its text is safe to print.
type SinkError struct{ Err error }

// Error gives the class of what the sink said.
func (e *SinkError) Error() string { return "audit: the sink fails: " + redact.Error(e.Err) }

// Unwrap returns the sink's error.
func (e *SinkError) Unwrap() error { return e.Err }

// Ready returns an error while records are being lost: the last write failed (*SinkError) or the queue was full
// (ErrFull). Side-effecting tools are denied meanwhile.
func (l *Log) Ready() error {
	if err := l.failure.Load(); err != nil {
		return &SinkError{*err}
	}
	if l.full.Load() {
		return ErrFull
	}
	return nil
}

// ErrUnwritten is what Close returns when its time ran out before everything was written.
var ErrUnwritten = errors.New("audit: closed with records not written")

// Close writes what is queued, for at most d, and stops the goroutine. A goroutine that hangs in a write of the sink ends
// with that write. Records that could not be written in time count as "error".
func (l *Log) Close(d time.Duration) error {
	l.closing.Do(func() { l.closeErr = l.close(d) })
	return l.closeErr
}

func (l *Log) close(d time.Duration) error {
	l.mu.Lock()
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.done:
		return nil
	case <-timer.C:
	}
	close(l.abandon)
	for e := range l.queue {
		l.observe("error")
		e.tell(ErrUnwritten)
	}
	return ErrUnwritten
}
