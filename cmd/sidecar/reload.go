package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
)

// reload reads the configuration again and puts it in force whole, or leaves the one in force.
func (a *app) reload() {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	revision, err := a.tryReload()
	a.reloaded(revision, err)
}

// recheck is reload without an occasion: it says nothing of a mistake that was told already.
func (a *app) recheck() {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	revision, err := a.tryReload()
	if err != nil && err.Error() == a.mistake {
		return
	}
	a.reloaded(revision, err)
}

// retry reloads if the last reload failed: what repairs a bad config may be a file that the one in force does not name, and
// that nobody watches.
func (a *app) retry() {
	a.reloading.Lock()
	failed := a.mistake != ""
	a.reloading.Unlock()
	if failed {
		a.recheck()
	}
}

// reloaded logs and counts what became of a reload.
func (a *app) reloaded(revision string, err error) {
	a.mistake = ""
	var problems config.Problems
	switch {
	case err != nil:
		a.mistake = err.Error()
		a.metrics.Reload("error")
		if !errors.As(err, &problems) {
			a.log.Error("config not reloaded; the one in force stays", "error", err)
		}
		for _, p := range problems {
			a.log.Error("config not reloaded; the one in force stays", "problem", p.String())
		}
	case revision == "":
		a.log.Debug("config read again; nothing has changed")
	default:
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
	gates, err := proxy.NewGates(next, a.own, a.metrics.Broker, a.proxy.Gates())
	if err != nil {
		return "", err
	}
	before := a.ca
	if err := a.openCA(next.Intercept); err != nil {
		return "", err
	}
	if a.ca != before { // rotated in place
		a.proxy.UseCA(a.ca)
	}
	a.proxy.Reload(gates)
	a.store.Swap(next)
	setLevel(a.level, next.Log.Level)
	if a.bus != nil {
		a.bus.Trust(next.KillSwitch.NATS.Keys)
		a.bus.Changed()
	}
	return next.Revision, nil
}

// sameKillSwitch compares all but the control plane's keys, which may be replaced at any time.
func sameKillSwitch(now, next config.KillSwitch) bool {
	now.NATS.Keys, next.NATS.Keys = nil, nil
	return reflect.DeepEqual(now, next)
}

// sameAudit compares all but the tools whose calls are captured, which are looked at for each call.
func sameAudit(now, next config.Audit) bool {
	now.Capture.Tools, next.Capture.Tools = nil, nil
	return reflect.DeepEqual(now, next)
}

// sameTracing compares all but the hosts that are told, which are looked at for each call.
func sameTracing(now, next config.Tracing) bool {
	now.Propagate, next.Propagate = nil, nil
	return reflect.DeepEqual(now, next)
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
	intercept := func(s *config.Snapshot) [6]string {
		i := &s.Intercept
		return [6]string{i.CACertFile, i.CAKeyFile, i.CAStateDir, i.CAOutFile, i.BundleOutFile, i.TrustStoreFile}
	}
	for _, part := range []struct {
		key  string
		same bool
	}{
		{"listeners or admin", slices.Equal(ports(now), ports(next))},
		{"fence", now.Fence == next.Fence},
		{"intercept's CA", intercept(now) == intercept(next)},
		{"killSwitch", sameKillSwitch(now.KillSwitch, next.KillSwitch)},
		{"audit", sameAudit(now.Audit, next.Audit)},
		{"tracing but propagate", sameTracing(now.Tracing, next.Tracing)},
		{"log.format", now.Log.Format == next.Log.Format},
		{"limits", now.Limits == next.Limits},
	} {
		if !part.same {
			return fmt.Errorf("%s changed, which needs a restart", part.key)
		}
	}
	return nil
}
