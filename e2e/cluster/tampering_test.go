//go:build linux

package main

import (
	"strings"
	"testing"
)

// said is what kubectl prints beside its result when it applies YAML, warnings above all.
func (k *kube) said(t *testing.T, yaml string) string {
	t.Helper()
	cmd := k.m.command(t.Context(), k.m.cache.program("kubectl"), "-n", k.namespace, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(yaml)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	return string(out)
}

// refused fails the test unless kubectl fails and says want.
func (k *kube) refused(t *testing.T, want string, args ...string) {
	t.Helper()
	if err := k.try(nil, args...); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("kubectl %s: found %v, expected it to say %q", strings.Join(args, " "), err, want)
	}
}

// testLabels is case K8S-11: what policies and records go by stays as it was.
func testLabels(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.admit(t, r.api, spec{name: "tool", labels: "app: tool"}, false)
	const labels, annotations = "labels that begin with toolgate/ cannot be changed", "annotations that begin with toolgate/ cannot be changed"
	k.refused(t, labels, "label", "pod", "tool", "toolgate/injected-")
	k.refused(t, labels, "label", "pod", "tool", "toolgate/injected=false", "--overwrite")
	k.refused(t, labels, "label", "pod", "tool", "toolgate/more=x")
	k.refused(t, annotations, "annotate", "pod", "tool", "toolgate/status-")
	k.refused(t, annotations, "annotate", "pod", "tool", "toolgate/tool=other")
	k.refused(t, labels, "patch", "pod", "tool", "--subresource=status", "--type=json", `-p=[{"op": "remove", "path": "/metadata/labels"}]`)
	k.refused(t, "toolgate: ", "set", "image", "pod/tool", "toolgate=tool.test/tool:1")
	k.kubectl(t, "label", "pod", "tool", "app=other", "--overwrite")
	k.kubectl(t, "set", "image", "pod/tool", "tool=tool.test/tool:2")
}

// testEphemeral: kubectl debug gives no container that could leave, and does give others.
func testEphemeral(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.admit(t, r.api, spec{name: "tool"}, false)
	debug := func(security, more string) []string {
		return []string{"patch", "pod", "tool", "--subresource=ephemeralcontainers", "--type=strategic",
			`-p={"spec": {"ephemeralContainers": [{"name": "debug", "image": "tool.test/tool:1", "securityContext": {` + security + `}` + more + `}]}}`}
	}
	const harmless = `"runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false`
	for security, want := range map[string]string{
		`"runAsUser": 64117, "runAsNonRoot": true, "allowPrivilegeEscalation": false`: "64117",
		`"runAsUser": 0`: "runAsNonRoot",
		``:               "runAsNonRoot",
		harmless + `, "capabilities": {"add": ["NET_ADMIN"]}`:         "NET_ADMIN",
		`"runAsNonRoot": true, "runAsUser": 1000, "privileged": true`: "privileged",
		`"runAsNonRoot": true, "runAsUser": 1000`:                     "allowPrivilegeEscalation",
		harmless + `, "runAsGroup": 64117`:                            "64117",
	} {
		k.refused(t, want, debug(security, "")...)
	}
	k.refused(t, "mounts a volume of the sidecar", debug(harmless, `, "volumeMounts": [{"name": "toolgate-token", "mountPath": "/t"}]`)...)
	k.refused(t, "must not target container toolgate", debug(harmless, `, "targetContainerName": "toolgate"`)...)
	k.refused(t, "toolgate: ", "debug", "tool", "--image=tool.test/tool:1", "--profile=sysadmin")
	k.kubectl(t, debug(harmless, "")...)
}

// testNamespaceLabel: whoever may edit namespaces cannot take the fence off all their pods; who may unfence can.
func testNamespaceLabel(t *testing.T, r *release) {
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: toolgate-test-namespaces}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [get, list, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: toolgate-test-unfence}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [unfence]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: toolgate-test-namespaces}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: toolgate-test-namespaces}
subjects: [{kind: User, name: dev, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: lead, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: toolgate-test-unfence}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: toolgate-test-unfence}
subjects: [{kind: User, name: lead, apiGroup: rbac.authorization.k8s.io}]
`)
	t.Cleanup(func() {
		for _, name := range []string{"toolgate-test-namespaces", "toolgate-test-unfence"} {
			if err := k.try(nil, "delete", "clusterrole,clusterrolebinding", name); err != nil {
				t.Error(err)
			}
		}
	})
	k.await(t, "the role", func() error {
		return k.try(nil, "--as=dev", "label", "namespace", k.namespace, "team=x", "--overwrite")
	})
	for _, label := range []string{"toolgate/inject-", "toolgate/inject=disabled"} {
		k.refused(t, "dev may not take the label toolgate/inject off namespace "+k.namespace, "--as=dev", "label", "namespace", k.namespace, label, "--overwrite")
	}
	p, _ := k.admit(t, r.api, spec{name: "still"}, true)
	if err := p.gated(); err != nil {
		t.Error(err)
	}
	k.kubectl(t, "--as=lead", "label", "namespace", k.namespace, "toolgate/inject-")
	k.await(t, "no injection", func() error {
		if p, _ := k.admit(t, r.api, spec{name: "free"}, true); p.gated() == nil {
			return errInjected
		}
		return nil
	})
	k.kubectl(t, "--as=dev", "label", "namespace", k.namespace, "toolgate/inject=enabled")
}
