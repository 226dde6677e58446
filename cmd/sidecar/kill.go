package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
)

// The sources of revocations.
const (
	fileSource = "file"
	natsSource = "nats"
)

func killSources(c config.KillSwitch) []string {
	var names []string
	if c.File != "" {
		names = append(names, fileSource)
	}
	if len(c.NATS.Servers) > 0 {
		names = append(names, natsSource)
	}
	return names
}

func newSwitch(c config.KillSwitch) *killswitch.Switch {
	k := killswitch.New(c.MaxStale, killSources(c)...)
	k.DenyStale(c.StaleRisks...)
	return k
}

func (a *app) openKillSwitch(c config.KillSwitch) {
	a.kill = newSwitch(c)
	if c.File != "" {
		a.file = &killswitch.File{Path: c.File, Name: fileSource, Switch: a.kill, Decode: config.LoadRevocations}
	}
}

// loadRevocations reads the revocations. What cannot be read leaves the last good set in force, and the switch grows stale.
func (a *app) loadRevocations() {
	if a.file == nil {
		return
	}
	a.revoking.Lock()
	defer a.revoking.Unlock()
	if err := a.file.Load(); err != nil {
		a.log.Error("revocations not read; the last good set stays in force", "error", err)
		return
	}
	a.log.Debug("revocations read", "revision", a.kill.Status().Revision)
}

// openBus puts the saved state in force and connects to the control plane. It waits for nobody.
func (a *app) openBus(c config.KillSwitch) error {
	if len(c.NATS.Servers) == 0 {
		return nil
	}
	a.bus = bus.New(bus.Options{
		Servers: c.NATS.Servers, CredentialsFile: c.NATS.CredentialsFile, CredentialsURL: c.NATS.CredentialsURL, TokenFile: c.NATS.TokenFile,
		CAFile: c.NATS.CAFile, CA: c.NATS.CA, Keys: c.NATS.Keys,
		StateDir: c.StateDir, Name: natsSource, Switch: a.kill, MaxStale: c.MaxStale, Self: a.self, Log: a.log,
		Observe: func(e bus.Event) { a.metrics.KillSwitch(e.Name, e.Result, e.Took) },
	})
	return a.bus.Start()
}

// self says who speaks to the control plane. The names are those that pods get from the downward API.
func (a *app) self() bus.Sidecar {
	host, _ := os.Hostname()
	return bus.Sidecar{
		Pod: cmp.Or(os.Getenv("POD_NAME"), host), Namespace: os.Getenv("POD_NAMESPACE"), Node: os.Getenv("NODE_NAME"),
		Version: cli.Version(), Tools: toolNames(a.store.Current()),
	}
}

// killLog tells the proxy, for metrics and readiness, how far the control plane's log was read and what is wrong with it.
func (a *app) killLog() (revision uint64, refused string, ok bool) {
	if a.bus == nil {
		return 0, "", false
	}
	v := a.bus.View()
	return v.Revision, string(v.Refused), true
}

// leaveBus tells the control plane not to wait for this sidecar.
func (a *app) leaveBus(ctx context.Context) {
	if a.bus == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	a.bus.Leaving(ctx)
}

// presentSwitch is the kill switch as files have it now. A revocations file that cannot be read leaves its source unheard,
// as in a sidecar that starts with it, and so does a missing saved state; one that is wrong is an error. The saved state
// counts as the control plane's present word, since nobody is asked.
func presentSwitch(s *config.Snapshot) (*killswitch.Switch, error) {
	c := s.KillSwitch
	k := newSwitch(c)
	if revocationsReadable(s) {
		file := killswitch.File{Path: c.File, Name: fileSource, Switch: k, Decode: config.LoadRevocations}
		if err := file.Load(); err != nil {
			return nil, err
		}
	}
	if len(c.NATS.Servers) == 0 || c.StateDir == "" {
		return k, nil
	}
	state, err := bus.LoadState(c.StateDir, c.NATS.Keys)
	switch {
	case errors.Is(err, bus.ErrNoState):
		return k, nil
	case err != nil:
		return nil, err
	}
	_, err = k.Apply(natsSource, state.KillSwitch(0))
	return k, err
}
