//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestEndings: what holds while parts of the platform end: a sidecar that is killed, a pod that is deleted, injector and kill switch that are
// replaced. One installation serves the three, side by side.
func TestEndings(t *testing.T) {
	p := newPartner(t)
	withVolume(t)
	k := installed(t, p.values(""))
	for name, test := range map[string]func(*testing.T, partner, *kube){"fenced": testFenced, "tool-first": testToolFirst, "replaced": testReplaced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p, k)
		})
	}
}

// testToolFirst: a pod that is deleted stops its tool before its sidecar, so that the tool's last calls pass. That they do is not enough to see:
// a sidecar that ends early may be started again in time.
func testToolFirst(t *testing.T, p partner, k *kube) {
	tools := p.tools(t, k)
	calling(t, tools, "leaving", `[linger, "https://plain`+partnerZone+`/"]`, "explicit")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var said, sidecar bytes.Buffer
	follow := func(container string, out *bytes.Buffer) func() error {
		cmd := tools.m.command(ctx, tools.m.cache.program("kubectl"), "-n", tools.namespace, "logs", "-f", "leaving", "-c", container)
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd.Wait
	}
	ends := []func() error{follow("tool", &said), follow("toolgate", &sidecar)}
	tools.await(t, "the tool", func() error { return says(tools.logs(t, "leaving", "tool"), "waiting") })
	began := time.Now()
	tools.kubectl(t, "delete", "pod", "leaving")
	t.Logf("the pod was gone %.1f s after its deletion", time.Since(began).Seconds())
	for _, end := range ends {
		if err := end(); err != nil {
			t.Errorf("kubectl logs -f: %v", err)
		}
	}
	_, done, _ := strings.Cut(said.String(), "\ndone ")
	last, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(done))
	if err != nil || !strings.Contains(said.String(), "after SIGTERM:\n200 ") {
		t.Fatalf("the tool says %q, expected an answer after SIGTERM and when", said.String())
	}
	draining, stopped := logged(sidecar.String(), "draining"), logged(sidecar.String(), "stopped")
	t.Logf("the sidecar was told to stop %.2f s after the tool was done, and ended %.2f s later", draining.Sub(last).Seconds(), stopped.Sub(draining).Seconds())
	if draining.Before(last) || stopped.Before(draining) {
		t.Errorf("the sidecar was told to stop at %v and ended at %v, expected both after %v, when the tool was done: %s", draining, stopped, last, sidecar.String())
	}
}

// logged is when a message was logged last; zero if it was not.
func logged(log, message string) (at time.Time) {
	for line := range strings.Lines(log) {
		var l struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == message {
			at = l.Time
		}
	}
	return at
}

// testReplaced: while injector and kill switch are replaced, a tool's calls go on, and none fails; pods are created, and each is gated.
func testReplaced(t *testing.T, p partner, k *kube) {
	tools := p.tools(t, k)
	calling(t, tools, "busy", `[hammer, "https://keyed`+partnerZone+`/", "https://plain`+partnerZone+`/"]`, "explicit")
	before := awaitCounts(t, tools, "busy", func(c counts) bool { return c.through > 0 })
	stop, _ := tools.load(t, tools.rest(t), 1, 50*time.Millisecond, true)
	began := time.Now()
	for _, what := range []string{"deployment/toolgate-injector", "statefulset/toolgate-killswitch"} {
		k.kubectl(t, "rollout", "restart", what)
		k.kubectl(t, "rollout", "status", what, "--timeout=90s")
	}
	replaced := awaitCounts(t, tools, "busy", func(counts) bool { return true })
	after := awaitCounts(t, tools, "busy", func(c counts) bool { return c.through >= replaced.through+50 })
	stop().report(t)
	t.Logf("in %.0f s %d calls through, %+v in all", time.Since(began).Seconds(), after.through-before.through, after)
	if after.denied != 0 || after.failed != 0 {
		t.Errorf("found %+v, expected that none was denied or failed: %s", after, tools.logs(t, "busy", "tool"))
	}
	calling(t, tools, "later", `[sleep, 1h]`, "explicit") // whoever was replaced works again
}

// calling starts a pod of the tests' tool, and returns when it is ready.
func calling(t *testing.T, k *kube, name, args, mode string) {
	t.Helper()
	annotations := ""
	if mode != "" {
		annotations = "toolgate/mode: " + mode
	}
	k.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, annotations: {`+annotations+`}}
spec: {automountServiceAccountToken: false, terminationGracePeriodSeconds: 20, containers: [{name: tool, image: "`+toolImage+`", args: `+args+`}]}
`)
	k.kubectl(t, "wait", "pod/"+name, "--for=condition=Ready", "--timeout=90s")
}

// counts are how many calls of a hammering tool were answered by 200, otherwise, and not at all.
type counts struct{ through, denied, failed int }

// awaitCounts polls until what a hammering tool has said last is as wanted.
func awaitCounts(t *testing.T, k *kube, pod string, wanted func(counts) bool) counts {
	t.Helper()
	var c counts
	k.await(t, "the counts of "+pod, func() error {
		text := k.logs(t, pod, "tool")
		i := strings.LastIndex(text, "through=")
		if i < 0 {
			return errors.New("it has said nothing")
		}
		if _, err := fmt.Sscanf(text[i:], "through=%d denied=%d failed=%d", &c.through, &c.denied, &c.failed); err != nil {
			return err
		}
		if !wanted(c) {
			return fmt.Errorf("found %+v", c)
		}
		return nil
	})
	return c
}
