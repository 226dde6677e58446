//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestExchange: an API demands a token of its own authorization server; the tool has nothing to show. The sidecar exchanges the token of the pod's
// service account, which the cluster issued, and the record says whose call it was.
func TestExchange(t *testing.T) {
	p := newPartner(t)
	k := installed(t, p.values("killSwitch: {enabled: false}"))
	tools := p.tools(t, k)
	job := func(namespace *kube, name string) {
		namespace.apply(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: `+name+`}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      containers: [{name: tool, image: "`+toolImage+`", args: [get, "https://orders`+partnerZone+`/orders"]}]
`)
	}
	job(tools, "orders")
	tools.awaitJob(t, "orders", "Complete")
	pod := tools.jobPod(t, "orders")
	account := "system:serviceaccount:" + tools.namespace + ":default"
	if got := tools.logs(t, pod, "tool"); !strings.Contains(got, "200 orders for "+account+", scope orders:read") {
		t.Errorf("the tool says %q", got)
	}
	r := tools.awaitRecord(t, pod, "toolgate", func(r record) bool { return r.Status == 200 })
	want := record{ID: r.ID, Kind: "request", Host: "orders" + partnerZone, Port: 443, Decision: "allow", Status: 200, Intercepted: true, Tenant: tools.namespace,
		Agent: "default", Task: pod, Subject: account, CredentialBinding: "orders", CredentialKind: "token_exchange"}
	if r != want {
		t.Errorf("found the record %+v, expected %+v", r, want)
	}
	holdsNothing(t, tools, pod)

	// The same image where nobody adds a token: the partner trusts nobody for where they come from.
	p.apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: company}, data: {ca.crt: `+quoted(p.ca)+`}}`)
	p.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: direct}
spec:
  restartPolicy: Never
  volumes: [{name: company, configMap: {name: company}}]
  containers:
  - {name: tool, image: "`+toolImage+`", args: [get, "https://orders`+partnerZone+`/orders"], env: [{name: SSL_CERT_FILE, value: /company/ca.crt}], volumeMounts: [{name: company, mountPath: /company}]}
`)
	p.awaitPod(t, "direct", "Succeeded")
	if got := p.logs(t, "direct", "tool"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("without a sidecar the tool says %q, expected 401", got)
	}
}

// holdsNothing fails where the tool's container mounts anything but the public CA files.
func holdsNothing(t *testing.T, k *kube, pod string) {
	t.Helper()
	var got struct {
		Spec struct {
			Containers []struct {
				VolumeMounts []struct{ Name string }
				Env          []struct {
					Name      string
					ValueFrom any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pod", pod, "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Spec.Containers[0].VolumeMounts {
		if m.Name != "toolgate-ca" {
			t.Errorf("the tool mounts %s", m.Name)
		}
	}
	for _, e := range got.Spec.Containers[0].Env {
		if e.ValueFrom != nil {
			t.Errorf("the tool has %s from elsewhere", e.Name)
		}
	}
}
