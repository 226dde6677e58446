//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestRolling is case K8S-17: while both replicas of the webhook are replaced, as a Deployment does it, two hundred pods are created by a
// controller and by clients, and each is gated. No creation fails.
func TestRolling(t *testing.T) {
	r := serving(t, orders)
	t.Run("K8S-17", func(t *testing.T) {
		k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
		stop, so := k.load(t, r.api, 4, 80*time.Millisecond, false)
		k.apply(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 100, selector: {matchLabels: {app: d}}, template: {"+
			spec{labels: "app: d"}.body()+"}}}")
		r.replace(t, "10.90.0.21", "10.90.0.23")
		r.replace(t, "10.90.0.22", "10.90.0.24")
		r.await(t, "a hundred pods by clients", func() error {
			if n := so.created.Load(); n < 100 {
				return fmt.Errorf("found %d", n)
			}
			return nil
		})
		stop().report(t)
		k.await(t, "a hundred pods by the controller", func() error {
			n := 0
			for _, p := range k.pods(t, r.api) {
				if err := p.gated(); err != nil {
					t.Fatal(err)
				}
				if len(p.Metadata.OwnerReferences) > 0 {
					n++
				}
			}
			if n != 100 {
				return fmt.Errorf("found %d", n)
			}
			return nil
		})
		if got := k.kubectl(t, "get", "events", "--field-selector=reason=FailedCreate", "-o", "name"); got != "" {
			t.Errorf("the controller met errors: %s", k.kubectl(t, "get", "events", "--field-selector=reason=FailedCreate"))
		}
	})
}

// replace replaces one replica with maxUnavailable 0: the new one serves before the old one is told to stop. The old one's address is known
// for a while after that, which is what its delay is for: the kubelet sees that it is not ready, and only then is it taken out.
func (r *release) replace(t *testing.T, old, next string) {
	t.Helper()
	var rest []string
	for address := range r.replicas {
		if address != old {
			rest = append(rest, address)
		}
	}
	slices.Sort(rest)
	r.start(t, next)
	r.endpoints(t, append(rest, next, old)...)
	one := r.replicas[old]
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.await(t, old+" is not ready", func() error {
		if _, err := one.get("/readyz"); err == nil {
			return errors.New("it still is")
		}
		return nil
	})
	r.endpoints(t, append(rest, next)...)
	delete(r.replicas, old)
	select {
	case err := <-one.ended:
		if err != nil {
			t.Errorf("injector at %s: found %v, expected exit code 0\n%s", old, err, one.lastLines(10))
		}
	case <-time.After(patience):
		_ = one.cmd.Process.Kill()
		t.Fatalf("injector at %s does not end", old)
	}
}

// TestLatency reads from the injectors' own histogram how long two thousand admissions took. Times are the machine's as well, so none is
// demanded: the figure is logged.
func TestLatency(t *testing.T) {
	r := serving(t, orders)
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	before := r.samples(t)
	stop, so := k.load(t, r.api, 2, 5*time.Millisecond, true)
	r.await(t, "a thousand pods, each asked about twice", func() error {
		if n := so.created.Load(); n < 1000 {
			return fmt.Errorf("found %v", n)
		}
		return nil
	})
	stop().report(t)
	h := r.samples(t)
	for name, v := range before {
		h[name] -= v
	}
	t.Logf("%v admissions: half within %v, 99 of 100 within %v, by buckets; %.2f ms of CPU for each; load average %s", h.count(), h.quantile(.5), h.quantile(.99),
		h["process_cpu_seconds_total"]/h.count()*1000, loadAverage(t))
	if h.count() < float64(so.created.Load()) {
		t.Errorf("found %v admissions for %d pods", h.count(), so.created.Load())
	}
}
