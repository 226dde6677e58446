package tracing

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/tracing/otlp"
)

// The results that Options.Observe is told.
const (
	Exported = "exported"
	Rejected = "rejected" // thrown away by the collector
	Failed   = "error"    // given up: the collector could not be reached or refused them
	Dropped  = "dropped"  // the queue was full, or the sidecar stopped
	Limited  = "limited"  // a call, not a span: more than its tool's limit
)

// Results are all of them.
var Results = []string{Exported, Rejected, Failed, Dropped, Limited}

// Options are what a Tracer is made of. Nothing else, and no environment variable, has a say.
type Options struct {
	Collector   otlp.Options
	SampleRatio float64 // share of the calls without a traceparent that are traced, 0 to 1
	PerSecond   int     // traced calls of each tool a second
	Version     string  // of the sidecar
	Observe     func(result string, n int)
	Log         *slog.Logger
}

// The bounds of what a dead collector can make the sidecar hold: some 1.5 KiB a call.
const (
	maxQueue = 1024
	maxBatch = 256
)

// times are how long things take; tests have shorter ones.
type times struct {
	collect time.Duration // of a batch that is not full
	send    time.Duration // of one attempt
	retry   time.Duration // before the second attempt; doubles
	again   int           // attempts after the first
}

var usual = times{collect: 2 * time.Second, send: 10 * time.Second, retry: time.Second, again: 4}

// Tracer sends the spans of calls to a collector. A nil Tracer traces nothing. Create it with New, and end it with Close.
type Tracer struct {
	options  Options
	times    times
	limits   limits
	client   *otlp.Client
	instance string

	queue chan *Span
	mu    sync.RWMutex // writers of queue share it; Close takes it
	over  bool         // nothing more is taken

	ctx  context.Context // ends when Close does not wait any longer
	stop context.CancelFunc
	done chan struct{}
	bad  bool // the last batch was not taken; the worker's
}

// New returns a Tracer that is running. It connects when it first sends.
func New(o Options) (*Tracer, error) { return newTracer(o, usual) }

func newTracer(o Options, timing times) (*Tracer, error) {
	client, err := otlp.New(o.Collector)
	if err != nil {
		return nil, err
	}
	var instance [16]byte
	_, _ = rand.Read(instance[:])
	t := &Tracer{
		options: o, times: timing, client: client, instance: hex.EncodeToString(instance[:]),
		limits: limits{perSecond: float64(o.PerSecond), now: time.Now, buckets: map[string]*bucket{}},
		queue:  make(chan *Span, maxQueue), done: make(chan struct{}),
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

func (t *Tracer) offer(s *Span) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.over {
		select {
		case t.queue <- s:
			return
		default:
		}
	}
	t.options.Observe(Dropped, s.spans())
}

// Close sends what is left, for as long as ctx allows; the rest is dropped and counted.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.mu.Lock()
	first := !t.over
	t.over = true
	t.mu.Unlock()
	if first {
		close(t.queue)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	t.stop()
	<-t.done
	t.client.Close()
}

// run collects batches and sends them, one at a time.
func (t *Tracer) run() {
	defer close(t.done)
	for {
		batch, more := t.collect()
		if len(batch) > 0 {
			t.send(batch)
		}
		if !more {
			return
		}
	}
}

// collect waits for a call, and then for others until there are enough or it has been a while.
func (t *Tracer) collect() (batch []*Span, more bool) {
	first, ok := <-t.queue
	if !ok {
		return nil, false
	}
	batch = append(batch, first)
	enough := time.NewTimer(t.times.collect)
	defer enough.Stop()
	for len(batch) < maxBatch {
		select {
		case s, ok := <-t.queue:
			if !ok {
				return batch, false
			}
			batch = append(batch, s)
		case <-enough.C:
			return batch, true
		}
	}
	return batch, true
}

// send sends a batch, again where that may help, and counts what became of it.
func (t *Tracer) send(batch []*Span) {
	n := 0
	for _, s := range batch {
		n += s.spans()
	}
	if t.ctx.Err() != nil {
		t.options.Observe(Dropped, n)
		return
	}
	message, err := proto.Marshal(t.message(batch))
	var rejected int64
	if err == nil {
		rejected, err = t.deliver(message)
	}
	switch {
	case err != nil && t.ctx.Err() != nil:
		t.options.Observe(Dropped, n)
	case err != nil:
		t.options.Observe(Failed, n)
	default:
		lost := int(min(max(rejected, 0), int64(n)))
		t.options.Observe(Rejected, lost)
		t.options.Observe(Exported, n-lost)
	}
	t.tell(err)
}

// tell logs when the collector begins to refuse and when it takes spans again, and not each time between.
func (t *Tracer) tell(err error) {
	switch bad := err != nil && t.ctx.Err() == nil; {
	case bad && !t.bad:
		t.options.Log.Warn("spans cannot be sent; calls are not affected", "error", err.Error(), "cause", errors.Unwrap(err))
		t.bad = true
	case err == nil && t.bad:
		t.options.Log.Info("spans are sent again")
		t.bad = false
	}
}

func (t *Tracer) deliver(message []byte) (rejected int64, err error) {
	wait := t.times.retry
	for again := t.times.again; ; again-- {
		ctx, cancel := context.WithTimeout(t.ctx, t.times.send)
		rejected, err = t.client.Export(ctx, otlp.Traces, message)
		cancel()
		var failed *otlp.Error
		if err == nil || !errors.As(err, &failed) || !failed.Again || again == 0 {
			return rejected, err
		}
		pause := time.NewTimer(min(max(wait, failed.After), maxPause))
		select {
		case <-pause.C:
		case <-t.ctx.Done():
			pause.Stop()
			return 0, err
		}
		wait *= 2
	}
}

// maxPause bounds what a collector may ask for: the queue fills meanwhile.
const maxPause = 30 * time.Second
