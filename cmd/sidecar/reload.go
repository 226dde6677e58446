package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
)

// reload reads the configuration again and puts it in force whole, or leaves the one in force.
func (a *app) reload() {
	revision, err := a.tryReload()
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		a.metrics.Reload("error")
		for _, p := range problems {
			a.log.Error("config not reloaded; the one in force stays", "problem", p.String())
		}
	case err != nil:
		a.metrics.Reload("error")
		a.log.Error("config not reloaded; the one in force stays", "error", err)
	case revision != "":
		a.metrics.Reload("ok")
		a.log.Info("config reloaded", "policy_revision", revision)
	}
}

// tryReload returns the new revision, or "" where nothing has changed.
func (a *app) tryReload() (string, error) {
	next, err := config.Load(a.path)
	if err != nil {
		return "", err
	}
	now := a.store.Current()
	if next.Revision == now.Revision {
		return "", nil
	}
	if err := sameFrame(now, next); err != nil {
		return "", err
	}
	gates, err := proxy.NewGates(next, a.own, a.metrics.Broker)
	if err != nil {
		return "", err
	}
	a.proxy.Reload(gates)
	a.store.Swap(next)
	setLevel(a.level, next.Log.Level)
	return next.Revision, nil
}

// sameFrame refuses a change of what is set up at the start: half of it in force would be worse than none.
func sameFrame(now, next *config.Snapshot) error {
	ports := func(s *config.Snapshot) []string {
		var l []string
		for _, x := range s.Listeners {
			l = append(l, x.Name+" "+x.Kind+" "+x.Address)
		}
		return append(l, "admin "+s.Admin)
	}
	intercept := func(s *config.Snapshot) [3]string {
		return [3]string{s.Intercept.CACertFile, s.Intercept.CAKeyFile, s.Intercept.CAOutFile}
	}
	for _, part := range []struct {
		key  string
		same bool
	}{
		{"listeners or admin", slices.Equal(ports(now), ports(next))},
		{"intercept's CA", intercept(now) == intercept(next)},
		{"killSwitch", now.KillSwitch == next.KillSwitch},
		{"audit", now.Audit == next.Audit},
		{"log.format", now.Log.Format == next.Log.Format},
		{"limits", now.Limits == next.Limits},
	} {
		if !part.same {
			return fmt.Errorf("%s changed, which needs a restart", part.key)
		}
	}
	return nil
}
