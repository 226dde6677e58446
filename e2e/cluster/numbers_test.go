//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// TestNumbers measures what bench/KUBERNETES.md shows. A time fails no test: it is the machine's as much as ours.
func TestNumbers(t *testing.T) {
	if os.Getenv("TOOLGATE_CLUSTER_NUMBERS") == "" {
		t.Skip("set TOOLGATE_CLUSTER_NUMBERS=1")
	}
	p := newPartner(t)
	withVolume(t)
	began := time.Now()
	k := installed(t, p.values(""))
	tools := p.tools(t, k)
	standingIn(t, tools, "first", "transparent")
	t.Logf("helm install to the first fenced pod Ready: %.1f s", time.Since(began).Seconds())
	plain := p.kube
	const runs = 11
	times := map[string][]time.Duration{}
	for i := range runs {
		for name, in := range map[string]*kube{"bare": plain, "explicit": tools, "transparent": tools} {
			times[name] = append(times[name], in.untilReady(t, fmt.Sprintf("%s-%d", name, i), name))
		}
	}
	for name, all := range times {
		slices.Sort(all)
		t.Logf("apply to Ready, %s: median %.2f s, fastest %.2f s, slowest %.2f s of %d", name, all[runs/2].Seconds(), all[0].Seconds(), all[runs-1].Seconds(), runs)
	}
	for _, mode := range []string{"explicit", "transparent"} {
		standingIn(t, tools, "idle-"+mode, mode)
	}
	if got, err := tools.exec("idle-explicit", "/tool", "get", "https://orders"+partnerZone+"/orders"); err != nil {
		t.Errorf("a call before measuring: %v: %s", err, got)
	}
	for _, pod := range []string{"idle-explicit", "idle-transparent"} {
		k.await(t, "figures of "+pod, func() error {
			m, err := tools.memory(t, pod)
			if err != nil {
				return err
			}
			t.Logf("memory of %s's sidecar: RSS %.1f MiB, working set %.1f MiB", pod, float64(m.RSSBytes)/(1<<20), float64(m.WorkingSetBytes)/(1<<20))
			return nil
		})
	}
}

// untilReady is how long a pod takes from kubectl apply to Ready; then it is deleted.
func (k *kube) untilReady(t *testing.T, name, mode string) time.Duration {
	t.Helper()
	began := time.Now()
	standingIn(t, k, name, mode)
	took := time.Since(began)
	k.kubectl(t, "delete", "pod", name, "--wait=true")
	return took
}

func standingIn(t *testing.T, k *kube, name, mode string) {
	t.Helper()
	annotations := "{}"
	if mode != "bare" {
		annotations = "{toolgate/mode: " + mode + "}"
	}
	k.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, annotations: `+annotations+`}
spec: {automountServiceAccountToken: false, terminationGracePeriodSeconds: 1, containers: [{name: tool, image: "`+toolImage+`", args: [sleep, 1h]}]}
`)
	k.kubectl(t, "wait", "pod/"+name, "--for=condition=Ready", "--timeout=60s")
}

// usage is what the kubelet reads from a container's control group.
type usage struct {
	Time                      time.Time
	RSSBytes, WorkingSetBytes uint64
}

// memory is of a pod's sidecar, once the kubelet has looked a while after its start.
func (k *kube) memory(t *testing.T, pod string) (usage, error) {
	t.Helper()
	var all struct {
		Pods []struct {
			PodRef     struct{ Name, Namespace string }
			Containers []struct {
				Name      string
				StartTime time.Time
				Memory    usage
			}
		}
	}
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/stats/summary")), &all); err != nil {
		return usage{}, err
	}
	for _, p := range all.Pods {
		for _, c := range p.Containers {
			if p.PodRef.Name != pod || p.PodRef.Namespace != k.namespace || c.Name != "toolgate" {
				continue
			}
			if since := c.Memory.Time.Sub(c.StartTime); since < 30*time.Second {
				return usage{}, fmt.Errorf("it has run for %v when it was looked at", since)
			}
			return c.Memory, nil
		}
	}
	return usage{}, errors.New("the kubelet has no figures yet")
}
