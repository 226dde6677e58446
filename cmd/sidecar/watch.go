package main

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/config"
)

// retryInterval is how often a config that could not be reloaded is read again.
const retryInterval = 10 * time.Second

// fenceInterval is how often the rules around the pod are tested.
const fenceInterval = 5 * time.Second

// every calls f at each interval, until ctx ends.
func (a *app) every(ctx context.Context, interval time.Duration, f func()) {
	a.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// settling is when a watcher has looked for the first time: as a rule, and surely.
var settling = [...]time.Duration{50 * time.Millisecond, time.Second}

// watch calls changed when one of the files has changed, and recheck as the watcher settles: a change between the load at
// the start and the watcher's first look sends no event.
func (a *app) watch(ctx context.Context, files func() []string, changed, recheck func()) {
	a.running.Go(func() { a.fail(config.Watch(ctx, a.log, files, changed)) })
	a.running.Go(func() {
		for _, after := range settling {
			select {
			case <-ctx.Done():
				return
			case <-time.After(after):
				recheck()
			}
		}
	})
}

func (a *app) watched() []string { return a.store.Current().Files }
