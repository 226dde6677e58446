package proxy

import (
	"context"
	"errors"
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
	began  time.Time     // monotonic: a clock that is set must not end calls
	last   atomic.Int64  // nanoseconds since began
	limit  atomic.Int64  // nanoseconds
	body   atomic.Bool   // the header has come
	beat   func()        // keeps the tunnel
	every  time.Duration // at least that often
	timer  *time.Timer
}

// watch starts a watchdog. beat is called at least every idle/2 while the call is within its limit.
func watch(ctx context.Context, limit, idle time.Duration, beat func()) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &watchdog{cancel: cancel, began: time.Now(), beat: beat, every: idle / 2}
	d.limit.Store(int64(limit))
	d.timer = time.AfterFunc(time.Hour, d.check) // not before the field is set
	d.timer.Reset(min(limit, d.every))
	return ctx, d
}

func (d *watchdog) touch() { d.last.Store(int64(time.Since(d.began))) }

// header starts the second phase.
func (d *watchdog) header(idle time.Duration) {
	d.touch()
	d.limit.Store(int64(idle))
	d.body.Store(true)
	d.timer.Reset(min(idle, d.every))
}

func (d *watchdog) check() {
	waiting := !d.body.Load()
	left := time.Duration(d.limit.Load() - (int64(time.Since(d.began)) - d.last.Load()))
	switch {
	case left > 0:
		d.beat()
		d.timer.Reset(min(left, d.every))
	case waiting:
		d.cancel(errToolTimeout)
	default:
		d.cancel(errStalled)
	}
}

func (d *watchdog) stop() {
	d.timer.Stop()
	d.cancel(nil)
}
