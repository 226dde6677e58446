package ship

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/tracing/otlp"
)

// The results that Options.Observe is told.
const (
	Shipped  = "shipped"
	Rejected = "rejected" // refused by the collector, however often they were sent
	Dropped  = "dropped"  // the spool was full, the file was deleted before, or the sidecar stopped
)

// Results are all of them.
var Results = []string{Shipped, Rejected, Dropped}

// Spool holds lines until they were sent: Memory or an audit.Follower. One goroutine uses it.
type Spool interface {
	// Lines returns the oldest lines that wait, at most n of them and, beyond the first, no more than so many bytes. None: none waits.
	Lines(n, size int) ([][]byte, error)
	// Done takes the first n of the lines last returned away. An error means that they may be returned again by another process.
	Done(n int, chain string) error
	// Chain is what Done was told last, also by a process before.
	Chain() string
	// Waiting is how many lines wait, those of a process before included.
	Waiting() (uint64, error)
	Close() error
}

// Options are what a Shipper is made of. Nothing else, and no environment variable, has a say.
type Options struct {
	Collector otlp.Options
	Spool     Spool
	Version   string // of the sidecar
	Observe   func(result string, n int)
	Failed    func() // something was not taken, and is tried again
	Log       *slog.Logger
}

// The bounds of one message. A collector's gRPC takes 4 MiB.
const (
	maxLines = 512
	maxBytes = 1 << 20
)

// times are how long things take; tests have shorter ones.
type times struct {
	collect time.Duration // of a message that is not full
	send    time.Duration // of one attempt
	retry   time.Duration // before the second attempt; doubles up to long
	long    time.Duration
	asked   time.Duration // what a collector may ask for
}

var usual = times{collect: time.Second, send: 10 * time.Second, retry: time.Second, long: 30 * time.Second, asked: 5 * time.Minute}

// Shipper sends lines, for as long as it takes. Create it with New, and end it with Close. A nil Shipper sends nothing.
type Shipper struct {
	options Options
	times   times
	client  *otlp.Client
	memory  *Memory // nil: a file is the spool

	written, done atomic.Uint64 // lines; done may be written's at an earlier time
	more          chan struct{} // there are lines
	closing       chan struct{}
	once          sync.Once
	ctx           context.Context // ends when Close does not wait any longer
	stop          context.CancelFunc
	ended         chan struct{}

	most int  // lines of the next message; the worker's
	bad  bool // the last message was not taken; the worker's
}

// New returns a Shipper that is running. It connects when it first sends. Errors: the spool's, and of options that are no collector's.
func New(o Options) (*Shipper, error) { return newShipper(o, usual) }

func newShipper(o Options, timing times) (*Shipper, error) {
	client, err := otlp.New(o.Collector)
	if err != nil {
		return nil, err
	}
	waiting, err := o.Spool.Waiting()
	if err != nil {
		return nil, err
	}
	s := &Shipper{
		options: o, times: timing, client: client, most: maxLines,
		more: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	s.memory, _ = o.Spool.(*Memory)
	s.written.Store(waiting)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wake()
	go s.run()
	return s, nil
}

// Wrote is for audit.Options: lines that the records' own sink has. It never waits.
func (s *Shipper) Wrote(lines []byte) {
	if s.memory == nil {
		s.written.Add(uint64(bytes.Count(lines, []byte{'\n'})))
		s.wake()
		return
	}
	dropped := 0
	for line := range bytes.Lines(lines) {
		s.written.Add(1) // first: it may be sent at once
		if !s.memory.push(bytes.TrimSuffix(line, []byte{'\n'})) {
			s.done.Add(1)
			dropped++
		}
	}
	s.options.Observe(Dropped, dropped)
	s.wake()
}

func (s *Shipper) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Waiting is how many lines were not sent yet.
func (s *Shipper) Waiting() uint64 {
	done := s.done.Load()
	return max(s.written.Load(), done) - done // a line of a file may be sent before we are told of it
}

// Close sends what is left, for as long as ctx allows. What is left then stays in a file, for the process to come; of memory it is dropped
// and counted.
func (s *Shipper) Close(ctx context.Context) {
	if s == nil {
		return
	}
	s.once.Do(func() { close(s.closing) })
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	s.stop()
	<-s.ended
	s.client.Close()
	left := s.Waiting()
	if s.memory != nil {
		s.options.Observe(Dropped, int(left))
	}
	if left > 0 {
		s.options.Log.Warn("records were not sent to audit.otlp before the stop", "records", left, "kept", s.memory == nil)
	}
	if err := s.options.Spool.Close(); err != nil {
		s.options.Log.Warn("the spool of audit.otlp was not closed", "error", err)
	}
}

func (s *Shipper) run() {
	defer close(s.ended)
	wait := s.times.retry
	for s.ctx.Err() == nil {
		sent, err := s.step()
		var failed *otlp.Error
		errors.As(err, &failed)
		switch {
		case err != nil:
			s.options.Failed()
			after := time.Duration(0)
			if failed != nil {
				after = min(failed.After, s.times.asked)
			}
			s.pause(max(wait, after))
			wait = min(2*wait, s.times.long)
		case sent:
			wait = s.times.retry
		case !s.collect():
			return
		}
		s.tell(err)
	}
}

// collect waits until there are lines, and then until there are more or it has been a while. It reports false when there are none and
// there will be none.
func (s *Shipper) collect() bool {
	select {
	case <-s.more:
	case <-s.closing:
		select {
		case <-s.more:
			return true
		default:
			return false
		}
	}
	s.pause(s.times.collect)
	return true
}

// pause waits, less where the sidecar stops.
func (s *Shipper) pause(d time.Duration) {
	closing := s.closing
	select {
	case <-closing:
		closing, d = nil, min(d, s.times.retry/4)
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
	case <-s.ctx.Done():
	}
}

// step sends one message, and reports whether there was anything to send.
func (s *Shipper) step() (bool, error) {
	known := s.written.Load()
	lines, err := s.options.Spool.Lines(s.most, maxBytes)
	if err != nil {
		return false, err
	}
	if len(lines) == 0 {
		if done := s.done.Load(); s.memory == nil && done < known { // all that we know of was passed, and some was not there any more
			s.options.Observe(Dropped, int(known-done))
			s.done.Store(known)
		}
		return false, nil
	}
	message, chain := s.message(lines, s.options.Spool.Chain())
	b, err := proto.Marshal(message)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.times.send)
	rejected, err := s.client.Export(ctx, otlp.Logs, b)
	cancel()
	switch {
	case err == nil:
		s.most = maxLines
	case !faulty(err):
		if tooMuch(err) {
			s.most = max(1, len(lines)/2)
		}
		return false, err
	case len(lines) > 1: // which of them, is found by sending fewer
		s.most = len(lines) / 2
		return true, nil
	default:
		rejected, s.most = 1, maxLines
	}
	s.passed(len(lines), int(min(max(rejected, 0), int64(len(lines)))), chain)
	return true, nil
}

// faulty reports whether it is the message that a collector does not take, whoever sends it and when.
func faulty(err error) bool {
	var failed *otlp.Error
	if !errors.As(err, &failed) || failed.Reason != "status" {
		return false
	}
	switch failed.Status {
	case 400, 413, 422, statusInvalidArgument:
		return true
	}
	return false
}

// tooMuch reports whether the collector may take less: gRPC says the same of a message that is too large and of a quota.
func tooMuch(err error) bool {
	var failed *otlp.Error
	return errors.As(err, &failed) && failed.Reason == "status" && failed.Status == statusResourceExhausted
}

// Statuses of gRPC, which are below any of HTTP.
const (
	statusInvalidArgument   = 3
	statusResourceExhausted = 8
)

// passed counts lines that arrived, or never will.
func (s *Shipper) passed(n, rejected int, chain string) {
	if rejected > 0 {
		s.options.Log.Warn("the collector of audit.otlp has refused records", "records", rejected, "of", n)
	}
	s.options.Observe(Rejected, rejected)
	s.options.Observe(Shipped, n-rejected)
	if err := s.options.Spool.Done(n, chain); err != nil {
		s.options.Failed()
		s.options.Log.Warn("what was sent to audit.otlp cannot be remembered; another process will send it again", "error", err)
	}
	s.done.Add(uint64(n))
}

// tell logs when the collector begins to fail and when it takes records again, and not each time between.
func (s *Shipper) tell(err error) {
	switch {
	case err != nil && !s.bad && s.ctx.Err() == nil:
		s.options.Log.Warn("records cannot be sent to audit.otlp; they wait, and calls are not affected", "error", err.Error(), "cause", errors.Unwrap(err))
		s.bad = true
	case err == nil && s.bad:
		s.options.Log.Info("records are sent to audit.otlp again")
		s.bad = false
	}
}
