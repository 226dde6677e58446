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
// timeout.
type watchdog struct {
	cancel context.CancelCauseFunc
	last   atomic.Int64 // UnixNano
	limit  atomic.Int64 // nanoseconds
	body   atomic.Bool  // the header has come
	timer  *time.Timer
}

func watch(ctx context.Context, limit time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &watchdog{cancel: cancel}
	d.touch()
	d.limit.Store(int64(limit))
	d.timer = time.AfterFunc(limit, d.check)
	return ctx, d
}

func (d *watchdog) touch() { d.last.Store(time.Now().UnixNano()) }

// header starts the second phase.
func (d *watchdog) header(idle time.Duration) {
	d.touch()
	d.body.Store(true)
	d.limit.Store(int64(idle))
	d.timer.Reset(idle)
}

func (d *watchdog) check() {
	left := time.Duration(d.limit.Load() - (time.Now().UnixNano() - d.last.Load()))
	switch {
	case left > 0:
		d.timer.Reset(left)
	case d.body.Load():
		d.cancel(errStalled)
	default:
		d.cancel(errToolTimeout)
	}
}

func (d *watchdog) stop() {
	d.timer.Stop()
	d.cancel(nil)
}
