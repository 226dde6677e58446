//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// fleetOrder is one line to the fleet's process; fleetAnswer is its answer.
type fleetOrder struct {
	Op       string    // join, arm, effect, settle
	N        int       // of join: how many more
	Plane    plane     // of join
	Tenant   string    // of arm: each sidecar begins a call for it
	ID       string    // of effect
	Revision uint64    // of settle
	After    time.Time // of settle: the control plane must have been heard since
	Within   time.Duration
}

type fleetAnswer struct {
	Error      string
	Took       time.Duration
	Effects    []time.Duration // of effect: from signing, one for each sidecar that it has reached
	Cut        int             // of effect: calls that have ended
	Goroutines int
}

// fleetMain is many sidecars' ends of the bus in one process: each with a connection, credentials, a verified log and a switch of its
// own. It follows orders from stdin until that ends.
func fleetMain([]string) error {
	if err := sayHello(struct{}{}); err != nil {
		return err
	}
	f, out := &fleet{effects: map[string][]time.Duration{}}, json.NewEncoder(os.Stdout)
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o fleetOrder
		if err := in.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		began := time.Now()
		a, err := f.do(&o)
		if err != nil {
			a = &fleetAnswer{Error: err.Error()}
		}
		a.Took, a.Goroutines = time.Since(began), runtime.NumGoroutine()
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

type fleet struct {
	members []*member

	mu      sync.Mutex
	effects map[string][]time.Duration // by revocation
}

// member is one sidecar without a proxy.
type member struct {
	kill *killswitch.Switch
	bus  *bus.Source
	call context.Context // the last that was armed
}

func (f *fleet) do(o *fleetOrder) (*fleetAnswer, error) {
	switch o.Op {
	case "join":
		return &fleetAnswer{}, f.join(o)
	case "arm":
		return &fleetAnswer{}, f.arm(o.Tenant)
	case "effect":
		return f.effect(o)
	case "settle":
		return &fleetAnswer{}, f.await(o.Within, "at the revision", f.at(o.Revision, o.After))
	}
	return nil, fmt.Errorf("cannot %q", o.Op)
}

const fleetSource = "nats"

func (f *fleet) join(o *fleetOrder) error {
	keys, err := ledger.ParseKeys(o.Plane.Key)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range o.N {
		m := &member{kill: killswitch.New(time.Minute, fleetSource)}
		m.kill.OnRevoke(func(r killswitch.Revocation) {
			took := time.Since(r.At) // r.At is when it was signed, by the clock of this machine
			f.mu.Lock()
			defer f.mu.Unlock()
			f.effects[r.ID] = append(f.effects[r.ID], took)
		})
		m.bus = bus.New(bus.Options{
			Servers: []string{"nats://" + o.Plane.NATS}, CredentialsFile: o.Plane.Credentials, Keys: keys, Name: fleetSource,
			Switch: m.kill, MaxStale: time.Minute, Log: slog.New(slog.DiscardHandler),
			Self: func() bus.Sidecar {
				return bus.Sidecar{Pod: fmt.Sprint("pod-", i), Namespace: "bench", Version: "bench", Tools: []string{"bench"}}
			},
		})
		if err := m.bus.Start(); err != nil {
			return err
		}
		f.members = append(f.members, m)
	}
	return f.await(o.Within, "joined", f.heard(began))
}

// arm begins a call at each member, for a revocation to cut.
func (f *fleet) arm(tenant string) error {
	for _, m := range f.members {
		call, _, err := m.kill.Guard(context.Background(), killswitch.Scope{Tool: "bench", Tenant: tenant, Risk: "low"})
		if err != nil {
			return err
		}
		m.call = call
	}
	return nil
}

// effect waits until a revocation has had its effect everywhere.
func (f *fleet) effect(o *fleetOrder) (*fleetAnswer, error) {
	err := f.await(o.Within, "reached by "+o.ID, func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.effects[o.ID])
	})
	a := &fleetAnswer{}
	for _, m := range f.members {
		if m.call.Err() != nil {
			a.Cut++
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.Effects = f.effects[o.ID]
	return a, err
}

// heard counts the members that the control plane has answered after a moment.
func (f *fleet) heard(after time.Time) func() int {
	return func() (n int) {
		for _, m := range f.members {
			if age := m.kill.Status().Age; age >= 0 && age <= time.Since(after) {
				n++
			}
		}
		return n
	}
}

// at counts the members that are connected, have heard the control plane after a moment, and are at its revision.
func (f *fleet) at(revision uint64, after time.Time) func() int {
	return func() (n int) {
		for _, m := range f.members {
			v, age := m.bus.View(), m.kill.Status().Age
			if v.Connected && v.Revision == revision && age >= 0 && age <= time.Since(after) {
				n++
			}
		}
		return n
	}
}

// await polls until the count is that of all members.
func (f *fleet) await(within time.Duration, what string, count func() int) error {
	for limit := time.Now().Add(within); ; {
		n := count()
		if n == len(f.members) {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d of %d are %s after %s", n, len(f.members), what, within)
		}
		_ = pause(context.Background(), 10*time.Millisecond)
	}
}
