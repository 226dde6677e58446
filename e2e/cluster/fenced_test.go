//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
)

// testFenced: from a pod that was injected in transparent mode nothing gets past the sidecar: not over IPv6, not by UDP, not as
// the sidecar's user by a file of the image, and not while the sidecar is killed and started again ten times. A pod beside it, without a
// sidecar, can do all of it.
func testFenced(t *testing.T, p partner, k *kube) {
	tools := p.tools(t, k)
	k.upstream(t)
	addresses := strings.Fields(k.kubectl(t, "get", "pod", "upstream", "-o", "jsonpath={.status.podIPs[*].ip}") + " " +
		k.kubectl(t, "get", "service", "upstream", "-o", "jsonpath={.spec.clusterIP}"))
	if len(addresses) != 3 || !strings.Contains(addresses[1], ":") {
		t.Fatalf("found the addresses %v, expected two of the pod, the second of IPv6, and one of its Service", addresses)
	}
	var urls []string
	for i, a := range addresses {
		if strings.Contains(a, ":") {
			a = "[" + a + "]"
		}
		addresses[i] = a + ":8080"
		urls = append(urls, "http://"+addresses[i]+"/")
	}
	hammering := `[hammer, "` + strings.Join(urls, `", "`) + `"]`
	calling(t, k, "control", hammering, "")
	calling(t, tools, "hammering", hammering, "transparent")

	tries := [][]string{{"/tool", "dial", "udp", addresses[0]}, {"/tool", "dial", "udp", addresses[1]}, {"/tool", "dial", "udp", "10.96.0.1:443"}}
	for _, url := range urls {
		tries = append(tries, []string{"/tool", "get", url}, []string{"/setuid", "get", url})
	}
	for _, args := range tries {
		got, err := k.exec("control", args...)
		if err != nil || !strings.Contains(got, "connected") && !strings.Contains(got, "200 ") {
			t.Errorf("%v: the pod without a sidecar says %q", args, got)
		}
		got, err = tools.exec("hammering", args...)
		if denied := strings.Contains(got, "403 ") && strings.Contains(got, "private_network"); args[1] == "get" && !denied {
			t.Errorf("%v: the tool says %q, expected that the sidecar denies it", args, got)
		}
		if refused := err != nil && strings.Contains(got, "operation not permitted"); args[1] == "dial" && !refused {
			t.Errorf("%v: the tool says %q, expected that the fence refuses it", args, got)
		}
	}
	if got, err := k.exec("control", "/setuid", "id"); err != nil || !strings.Contains(got, "\t64117\t") {
		t.Errorf("the file of the sidecar's user says %q", got)
	}

	for n := range 10 {
		before := tools.status(t, "hammering").container(t, "toolgate").RestartCount
		pid := strings.TrimSpace(tools.run(t, "sh", "-c", sidecarOf("hammering")))
		tools.run(t, "kill", "-KILL", pid)
		tools.await(t, fmt.Sprint("restart ", n), func() error {
			c := tools.status(t, "hammering").container(t, "toolgate")
			if c.RestartCount <= before || !c.Ready {
				return fmt.Errorf("found %+v", c)
			}
			return nil
		})
	}
	all := awaitCounts(t, tools, "hammering", func(c counts) bool { return c.failed > 0 })
	t.Logf("ten kills: %+v; the pod without a sidecar: %+v", all, awaitCounts(t, k, "control", func(c counts) bool { return c.through > 0 }))
	if all.through != 0 || all.denied == 0 {
		t.Errorf("found %+v, expected none through, and some denied", all)
	}
	if got, err := tools.exec("hammering", "/tool", "get", "https://plain"+partnerZone+"/"); err != nil || !strings.Contains(got, "200 ") {
		t.Errorf("after ten kills what is allowed comes to %q", got)
	}
}

// sidecarOf prints the process of a pod's sidecar: the one that has the pod's name in its environment.
func sidecarOf(pod string) string {
	return `for p in /proc/[0-9]*; do if [ "$(tr '\0' ' ' <$p/cmdline 2>/dev/null | cut -d' ' -f1-2)" = "/sidecar run" ] && tr '\0' '\n' <$p/environ | grep -qx POD_NAME=` + pod + `; then echo ${p#/proc/}; fi; done`
}
