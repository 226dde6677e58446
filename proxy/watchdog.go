package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errToolTimeout = errors.New("the upstream's answer took longer than the tool's timeout")
	errStalled     = errors.New("nothing moved for the idle timeout")
)

// watchdog ends a call that makes no progress: first within the tool's timeout, until the response's header has come,
// then within the idle timeout. Every byte that moves counts as progress, so that a long upload or an event stream is no
// timeout. While it waits, it keeps the call's tunnel from being taken for idle.
type watchdog struct {
	cancel context.CancelCauseFunc
	last   atomic.Int64  // of the last byte, as clock tells it
	limit  atomic.Int64  // nanoseconds
	body   atomic.Bool   // the header has come
	beat   func()        // keeps the tunnel
	every  time.Duration // at least that often

	mu    sync.Mutex // the timer may go off before its field is set
	timer *time.Timer
}

// watch starts a watchdog, which ends a call by cancel. beat is called at least every idle/2 while the call is within its limit.
func watch(cancel context.CancelCauseFunc, limit, idle time.Duration, beat func()) *watchdog {
	d := &watchdog{cancel: cancel, beat: beat, every: idle / 2}
	d.touch(clock())
	d.limit.Store(int64(limit))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(min(limit, d.every), d.check)
	return d
}

// touch notes that something moved, now as clock tells it.
func (d *watchdog) touch(now int64) { d.last.Store(now) }

// header starts the second phase. The timer, which goes off within half of idle, finds the new limit.
func (d *watchdog) header(idle time.Duration) {
	d.touch(clock())
	d.limit.Store(int64(idle))
	d.body.Store(true)
}

func (d *watchdog) check() {
	waiting := !d.body.Load()
	left := time.Duration(d.limit.Load() - (clock() - d.last.Load()))
	switch {
	case left > 0:
		d.beat()
		d.reset(min(left, d.every))
	case waiting:
		d.cancel(errToolTimeout)
	default:
		d.cancel(errStalled)
	}
}

func (d *watchdog) reset(after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Reset(after)
}

func (d *watchdog) stop() { d.timer.Stop() }
