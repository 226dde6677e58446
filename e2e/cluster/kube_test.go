//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what should happen soon.
const patience = 90 * time.Second

// kube is a namespace of the node, and kubectl and helm in it.
type kube struct {
	m         *machine
	namespace string
}

// onNode skips the test unless a node of the tier or a larger one runs, and returns its namespace "default".
func onNode(t *testing.T, needs string) *kube {
	t.Helper()
	if world == nil {
		t.Skip("NOT TESTED: " + why)
	}
	if needs == tierC && tier != tierC {
		t.Skip("NOT TESTED: this node runs no pods; TOOLGATE_CLUSTER=c")
	}
	return &kube{world, "default"}
}

// inNamespace makes a namespace with labels such as "toolgate/inject=enabled", and deletes it after the test.
func (k *kube) inNamespace(t *testing.T, labels ...string) *kube {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-").Replace(t.Name()))
	own := &kube{k.m, name[max(0, len(name)-60):]}
	own.kubectl(t, "create", "namespace", own.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			own.describe(t)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := own.m.command(ctx, own.m.cache.program("kubectl"), "delete", "namespace", own.namespace, "--wait=false").CombinedOutput(); err != nil {
			t.Errorf("deleting the namespace: %v: %s", err, out)
		}
	})
	if len(labels) > 0 {
		own.kubectl(t, append([]string{"label", "namespace", own.namespace}, labels...)...)
	}
	own.await(t, "the namespace's service account", func() error { return own.try(nil, "get", "serviceaccount", "default") })
	return own
}

// deleteNamespace deletes the namespace and waits until it is gone. Its pods go first: while one has time to end, the namespace's controller
// comes back only after half of that time.
func (k *kube) deleteNamespace() error {
	err := k.try(nil, "delete", "pods", "--all", "--grace-period=1")
	return errors.Join(err, k.try(nil, "delete", "namespace", k.namespace))
}

// describe logs what the namespace holds: a failed test's best witness.
func (k *kube) describe(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"}} {
		var out bytes.Buffer
		_ = k.try(&out, args...)
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out.String())
	}
	var pods bytes.Buffer
	_ = k.try(&pods, "get", "pods", "-o", "name")
	all := strings.Fields(pods.String())
	for _, pod := range all[:min(len(all), 10)] {
		var out bytes.Buffer
		_ = k.try(&out, "logs", pod, "--all-containers", "--prefix", "--tail=20")
		t.Logf("logs of %s\n%s", pod, out.String())
	}
}

// try runs kubectl in the namespace; its output goes to out unless nil. The error quotes what kubectl said.
func (k *kube) try(out *bytes.Buffer, args ...string) error { return k.tryWith("", out, args...) }

func (k *kube) tryWith(input string, out *bytes.Buffer, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := k.m.command(ctx, append([]string{k.m.cache.program("kubectl"), "-n", k.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	return tried(cmd, out)
}

func tried(cmd *exec.Cmd, out *bytes.Buffer) error {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if out != nil {
		_, _ = stdout.WriteTo(out)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// kubectl runs kubectl and returns its output.
func (k *kube) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := k.try(&out, args...); err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// apply applies YAML in the namespace. Unknown fields are mistakes.
func (k *kube) apply(t *testing.T, yaml string) {
	t.Helper()
	if err := k.tryApply(yaml); err != nil {
		t.Fatal(err)
	}
}

// tryApply is for what should be refused.
func (k *kube) tryApply(yaml string) error {
	return k.tryWith(yaml, nil, "apply", "--validate=strict", "-f", "-")
}

// helm runs helm in the namespace, with input for "-f -", and returns its output.
func (k *kube) helm(t *testing.T, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := k.m.command(ctx, append([]string{k.m.cache.program("helm"), "-n", k.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	if err := tried(cmd, &out); err != nil {
		t.Fatalf("helm %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// run runs any command on the node and returns its output.
func (k *kube) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	if err := tried(k.m.command(ctx, args...), &out); err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// await polls until f succeeds, and fails the test when patience ends.
func (k *kube) await(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// awaitPod polls until the pod has the phase. One that ended otherwise fails the test at once.
func (k *kube) awaitPod(t *testing.T, name, phase string) {
	t.Helper()
	k.await(t, "pod "+name, func() error {
		got := k.status(t, name)
		if got.Phase == phase {
			return nil
		}
		if got.Phase == "Failed" || got.Phase == "Succeeded" {
			t.Fatalf("pod %s: found %+v, expected %s; it said\n%s", name, got, phase, k.logsOf(name))
		}
		return fmt.Errorf("found %+v", got)
	})
}

// awaitJob polls until the job has ended as wanted, Complete or Failed. One that ended otherwise fails the test at once.
func (k *kube) awaitJob(t *testing.T, name, condition string) {
	t.Helper()
	k.await(t, "job "+name, func() error {
		var job struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal([]byte(k.kubectl(t, "get", "job", name, "-o", "json")), &job); err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			switch {
			case c.Status != "True" || c.Type != "Complete" && c.Type != "Failed":
			case c.Type != condition:
				t.Fatalf("job %s: found %s, expected %s", name, c.Type, condition)
			default:
				return nil
			}
		}
		return fmt.Errorf("found %+v", job.Status.Conditions)
	})
}

// podStatus is what tests read of a pod's status.
type podStatus struct {
	Phase                 string
	PodIP                 string
	InitContainerStatuses []containerStatus
	ContainerStatuses     []containerStatus
}

type containerStatus struct {
	Name         string
	Ready        bool
	RestartCount int
	State        struct {
		Waiting    *struct{ Reason, Message string }
		Terminated *struct {
			ExitCode        int
			Reason, Message string
		}
	}
}

func (k *kube) status(t *testing.T, name string) podStatus {
	t.Helper()
	var pod struct{ Status podStatus }
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pod", name, "-o", "json")), &pod); err != nil {
		t.Fatal(err)
	}
	return pod.Status
}

// container finds one container's status, of either kind.
func (s podStatus) container(t *testing.T, name string) containerStatus {
	t.Helper()
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("found no container %s in %+v", name, s)
	return containerStatus{}
}

func (k *kube) logsOf(pod string) string {
	var out bytes.Buffer
	err := k.try(&out, "logs", pod, "--all-containers", "--prefix")
	if err != nil {
		return errors.Join(err, errors.New(out.String())).Error()
	}
	return out.String()
}

// logs is what one container of a pod has written.
func (k *kube) logs(t *testing.T, pod, container string) string {
	t.Helper()
	return k.kubectl(t, "logs", pod, "-c", container)
}

// ended is nil for a container that ended with 0.
func ended(c containerStatus) error {
	if end := c.State.Terminated; end == nil || end.ExitCode != 0 {
		return fmt.Errorf("found %+v, expected an end with 0", c.State)
	}
	return nil
}
