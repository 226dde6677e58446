//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tally is what came of pods that were created one after the other.
type tally struct {
	created, failed, ungated atomic.Int64
	mu                       sync.Mutex
	first                    string // what the first failure said
}

func (a *tally) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == "" {
		a.first = fmt.Sprintf(format, args...)
	}
}

// load creates pods in the namespace from several clients, each one pod per pace, until the returned function is called.
func (k *kube) load(t *testing.T, r rest, clients int, pace time.Duration, dryRun bool) (stop func() *tally, so *tally) {
	t.Helper()
	so = &tally{}
	done := make(chan struct{})
	var clientsDone sync.WaitGroup
	for range clients {
		clientsDone.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					k.createOne(t, r, so, dryRun)
				}
			}
		})
	}
	return sync.OnceValue(func() *tally {
		close(done)
		clientsDone.Wait()
		return so
	}), so
}

func (k *kube) createOne(t *testing.T, r rest, so *tally, dryRun bool) {
	a, err := r.create(t.Context(), k.namespace, spec{generateName: "load-"}.String(), dryRun)
	var p stored
	if err == nil && a.code == 201 {
		err = json.Unmarshal(a.body, &p)
	}
	switch {
	case err != nil || a.code != 201:
		so.failed.Add(1)
		so.fault("%v, %d %s", err, a.code, a.message())
	case p.gated() != nil:
		so.ungated.Add(1)
		so.fault("%v", p.gated())
	default:
		so.created.Add(1)
	}
}

// report fails the test if a pod was not created, or not gated.
func (a *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%d pods created, %d refused, %d ungated", a.created.Load(), a.failed.Load(), a.ungated.Load())
	if a.failed.Load() > 0 || a.ungated.Load() > 0 {
		t.Errorf("the first fault: %s", a.first)
	}
}
