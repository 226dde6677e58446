//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestAdmission: what the chart's webhook does to pods, as people and controllers see it at a real API server.
func TestAdmission(t *testing.T) {
	r := serving(t, orders)
	t.Run("injected", func(t *testing.T) { testInjected(t, r) })
	t.Run("warned", func(t *testing.T) { testWarned(t, r) })
	t.Run("restricted", func(t *testing.T) { testRestricted(t, r) })
	t.Run("elsewhere", func(t *testing.T) { testElsewhere(t, r) })
	t.Run("quota", func(t *testing.T) { testQuotaAlone(t, r) })
	t.Run("limited", func(t *testing.T) { testLimited(t, r) })
	t.Run("controllers", func(t *testing.T) { testControllers(t, r) })
	t.Run("manifests", func(t *testing.T) { testManifests(t, r) })
	t.Run("again", func(t *testing.T) { testAgain(t, r) })
	for _, c := range refusals() {
		t.Run(c.id, func(t *testing.T) { testRefused(t, r, c) })
	}
	t.Run("K8S-11", func(t *testing.T) { testLabels(t, r) })
	t.Run("K8S-19", func(t *testing.T) { testHardened(t, r) })
	t.Run("ephemeral", func(t *testing.T) { testEphemeral(t, r) })
	t.Run("namespace", func(t *testing.T) { testNamespaceLabel(t, r) })
}

// testInjected: a pod of a labelled namespace has what docs/kubernetes.md says, and elsewhere nothing.
func testInjected(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	p, _ := k.admit(t, r.api, spec{name: "tool", pod: `initContainers: [{name: first, image: "tool.test/tool:1"}]`}, false)
	if err := p.gated(); err != nil {
		t.Fatal(err)
	}
	sidecar, first, tool := p.Spec.InitContainers[0], p.Spec.InitContainers[1], p.Spec.Containers[0]
	if sidecar.SecurityContext.RunAsUser != 64117 || sidecar.Image != "docker.io/toolgate/sidecar:"+version || !strings.Contains(sidecar.env("TOOLGATE_CONFIG"), "orders.example") {
		t.Errorf("found sidecar %+v", sidecar)
	}
	for _, m := range sidecar.VolumeMounts {
		if !strings.HasPrefix(m.Name, "toolgate-") {
			t.Errorf("the sidecar has the mount %+v", m)
		}
	}
	for _, c := range []storedContainer{first, tool} {
		if c.env("HTTPS_PROXY") == "" || c.env("SSL_CERT_FILE") != "/var/run/toolgate/ca/ca-bundle.pem" {
			t.Errorf("container %s: found variables %v", c.Name, c.Env)
		}
	}
	for _, m := range tool.VolumeMounts {
		if strings.HasPrefix(m.Name, "toolgate-") && (m.Name != "toolgate-ca" || !m.ReadOnly) {
			t.Errorf("the tool has the mount %+v", m)
		}
	}
	var status map[string]any
	if err := json.Unmarshal([]byte(p.Metadata.Annotations["toolgate/status"]), &status); err != nil {
		t.Errorf("toolgate/status: %v", err)
	}
	fenced, _ := k.admit(t, r.api, spec{generateName: "fenced-", annotations: "toolgate/mode: transparent"}, false)
	if err := fenced.gated(); err != nil || fenced.Spec.InitContainers[0].Name != "toolgate-fence" || fenced.Spec.Containers[0].SecurityContext.RunAsUser != 64200 {
		t.Errorf("%v; found %+v", err, fenced.Spec)
	}
}

// testElsewhere: a namespace without the label, and the namespaces that the platform itself needs, are left alone.
func testElsewhere(t *testing.T, r *release) {
	plain := r.inNamespace(t)
	if p, _ := plain.admit(t, r.api, spec{name: "tool"}, false); p.gated() == nil || len(p.Metadata.Annotations) > 0 {
		t.Errorf("found %+v in a namespace without the label", p)
	}
}

// testWarned: kubectl shows what the injector leaves to the user.
func testWarned(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	said := k.said(t, spec{name: "own", container: `env: [{name: HTTPS_PROXY, value: "http://proxy.example:3128"}]`}.String())
	if !strings.Contains(said, "Warning: toolgate: ") || !strings.Contains(said, "HTTPS_PROXY") {
		t.Errorf("kubectl said %q, expected a warning of HTTPS_PROXY", said)
	}
	if got := k.kubectl(t, "get", "pod", "own", "-o", `jsonpath={.spec.containers[0].env[?(@.name=="HTTPS_PROXY")].value}`); got != "http://proxy.example:3128" {
		t.Errorf("found %q, expected the user's value", got)
	}
}

// testRestricted: Pod Security at restricted admits what mode explicit makes, and says no to the fence, which has NET_ADMIN.
func testRestricted(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders", "pod-security.kubernetes.io/enforce=restricted")
	s := spec{name: "tool", pod: restrictedPod, container: restrictedContainer}
	p, _ := k.admit(t, r.api, s, false)
	if err := p.gated(); err != nil {
		t.Error(err)
	}
	s.name, s.annotations = "fenced", "toolgate/mode: transparent"
	if err := k.tryApply(s.String()); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") || !strings.Contains(err.Error(), "toolgate-fence") {
		t.Errorf("found %v, expected that the fence violates PodSecurity", err)
	}
}

// testLimited: a LimitRange and a quota take injected pods for ones that say what they need; the sidecar keeps its own figures.
func testLimited(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.apply(t, `
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec:
  limits: [{type: Container, default: {cpu: 100m, memory: 64Mi}, defaultRequest: {cpu: 50m, memory: 32Mi}, max: {cpu: "2", memory: 1Gi}}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {pods: "2", requests.cpu: "1", requests.memory: 1Gi, limits.cpu: "4", limits.memory: 1Gi}}
`)
	k.await(t, "the quota", func() error {
		if got := k.kubectl(t, "get", "resourcequota", "quota", "-o", "jsonpath={.status.used.pods}"); got != "0" {
			return fmt.Errorf("found %q pods in use", got)
		}
		return nil
	})
	p, _ := k.admit(t, r.api, spec{name: "tool"}, false)
	if err := p.gated(); err != nil {
		t.Fatal(err)
	}
	if got := p.Spec.InitContainers[0].Resources; got.Limits["cpu"] != "1" || got.Limits["memory"] != "128Mi" || got.Requests["cpu"] != "10m" || got.Requests["memory"] != "32Mi" {
		t.Errorf("the sidecar has %+v, expected the chart's", got)
	}
	if got := p.Spec.Containers[0].Resources.Limits; got["cpu"] != "100m" {
		t.Errorf("the tool has %v, expected the namespace's", got)
	}
	if got := k.kubectl(t, "get", "resourcequota", "quota", "-o", "jsonpath={.status.used.limits\\.cpu}"); got != "1100m" {
		t.Errorf("the quota counts %q, expected 1100m", got)
	}
	k.admit(t, r.api, spec{name: "second"}, false)
	if err := k.tryApply(spec{name: "third"}.String()); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("found %v, expected that the quota is exceeded", err)
	}
}

// testQuotaAlone: where a quota demands limits and nothing fills them in, what is injected has its own.
func testQuotaAlone(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.apply(t, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {limits.cpu: "4", limits.memory: 1Gi}}}`)
	k.await(t, "the quota", func() error {
		if got := k.kubectl(t, "get", "resourcequota", "quota", "-o", "jsonpath={.status.used.limits\\.cpu}"); got != "0" {
			return fmt.Errorf("found %q in use", got)
		}
		return nil
	})
	k.admit(t, r.api, spec{name: "tool", container: "resources: {limits: {cpu: 100m, memory: 64Mi}}"}, false)
	fenced := spec{name: "fenced", annotations: "toolgate/mode: transparent", container: "resources: {limits: {cpu: 100m, memory: 64Mi}}"}
	k.admit(t, r.api, fenced, false)
}

// testControllers: pods that nobody names are injected as well, and a controller's events hand on why they are refused.
func testControllers(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	template := func(app string, s spec) string {
		s.labels = "app: " + app
		return "selector: {matchLabels: {app: " + app + "}}, template: {" + s.body() + "}"
	}
	k.apply(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, "+template("d", spec{})+"}}\n---\n"+
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 1, "+template("r", spec{})+"}}\n---\n"+
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 1, serviceName: s, "+template("s", spec{})+"}}\n---\n"+
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {"+spec{pod: "restartPolicy: Never"}.body()+"}}}\n---\n"+
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: wrong}, spec: {replicas: 1, "+template("wrong", spec{pod: "hostNetwork: true"})+"}}")
	k.await(t, "five pods", func() error {
		kinds := map[string]int{}
		for _, p := range k.pods(t, r.api) {
			if err := p.gated(); err != nil {
				t.Fatal(err)
			}
			for _, o := range p.Metadata.OwnerReferences {
				kinds[o.Kind]++
			}
		}
		if kinds["ReplicaSet"] != 3 || kinds["StatefulSet"] != 1 || kinds["Job"] != 1 {
			return fmt.Errorf("found %v", kinds)
		}
		return nil
	})
	k.await(t, "the condition of the ReplicaSet", func() error {
		if got := k.kubectl(t, "get", "replicaset", "wrong", "-o", "jsonpath={.status.conditions}"); !strings.Contains(got, "toolgate: take hostNetwork") && !strings.Contains(got, "hostNetwork") {
			return fmt.Errorf("found %s", got)
		}
		return nil
	})
}

// testAgain: a pod that was read from the cluster can be created again as it is, and others' webhooks may have the injector asked twice.
func testAgain(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.admit(t, r.api, spec{name: "tool"}, false)
	text := k.kubectl(t, "get", "pod", "tool", "-o", "json")
	k.kubectl(t, "delete", "pod", "tool", "--force", "--grace-period=0")
	var p map[string]any
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	metadata := p["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	again, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.api.create(t.Context(), k.namespace, string(again), false)
	if err != nil || a.code != 201 {
		t.Fatalf("%v, found %d %s", err, a.code, a.message())
	}
	var was, is stored
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(a.body, &is); err != nil {
		t.Fatal(err)
	}
	if len(was.Spec.InitContainers) != len(is.Spec.InitContainers) || is.gated() != nil {
		t.Errorf("found %+v, expected %+v", is.Spec, was.Spec)
	}
}
