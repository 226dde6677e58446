//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// upstream starts a pod that answers by HTTP at http://upstream.NAMESPACE.svc.cluster.local:8080.
func (k *kube) upstream(t *testing.T) {
	t.Helper()
	k.apply(t, `
apiVersion: v1
kind: Service
metadata: {name: upstream}
spec: {selector: {app: upstream}, ports: [{port: 8080}], ipFamilyPolicy: PreferDualStack}
---
apiVersion: v1
kind: Pod
metadata: {name: upstream, labels: {app: upstream}}
spec:
  containers:
  - {name: serve, image: "`+toolImage+`", args: [serve, ":8080"], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}
`)
	k.kubectl(t, "wait", "pod/upstream", "--for=condition=Ready", "--timeout=60s")
}

// byHand is a Job whose pod has the fence, the sidecar and a tool as the injector is to make them. The tool's arguments are JSON.
func (k *kube) byHand(t *testing.T, name, toolArgs string) {
	t.Helper()
	text, err := os.ReadFile("testdata/byhand.yaml")
	if err != nil {
		t.Fatal(err)
	}
	k.apply(t, strings.NewReplacer("@NAME@", name, "@ARGS@", toolArgs, "@NAMESPACE@", k.namespace, "@TOOL@", toolImage,
		"@SIDECAR@", image("sidecar"), "@FENCE@", image("fence")).Replace(string(text)))
}

// jobPod is the name of a job's pod.
func (k *kube) jobPod(t *testing.T, job string) string {
	t.Helper()
	return strings.TrimSpace(k.kubectl(t, "get", "pods", "-l", "job-name="+job, "-o", "jsonpath={.items[0].metadata.name}"))
}

// TestJobWithSidecar: a Job whose pod is fenced by a container that is not root calls what its manifest allows, and completes: the sidecar
// ends by itself, with 0.
func TestJobWithSidecar(t *testing.T) {
	k := onNode(t, tierC).inNamespace(t)
	k.upstream(t)
	k.byHand(t, "allowed", `[get, "http://upstream.`+k.namespace+`.svc.cluster.local:8080/orders"]`)
	k.awaitJob(t, "allowed", "Complete")
	pod := k.jobPod(t, "allowed")
	if got := k.logs(t, pod, "tool"); !strings.Contains(got, "200 GET upstream") {
		t.Errorf("the tool says %q", got)
	}
	if got := k.logs(t, pod, "toolgate"); !strings.Contains(got, `"decision":"allow"`) {
		t.Errorf("the sidecar recorded no call: %s", got)
	}
	for _, c := range []string{"toolgate-fence", "toolgate"} {
		k.await(t, c, func() error { return ended(k.status(t, pod).container(t, c)) })
	}
}

// TestToolIsFenced: the same pod's tool goes nowhere else, whatever it tries.
func TestToolIsFenced(t *testing.T) {
	k := onNode(t, tierC).inNamespace(t)
	k.upstream(t)
	for name, args := range map[string]string{
		"denied": `[get, "http://other.` + k.namespace + `.svc.cluster.local:8080/"]`,
		"udp":    `[dial, udp, "10.96.0.1:443"]`,
		"tcp":    `[dial, tcp, "127.0.0.1:15101"]`,
		"admin":  `[dial, tcp, "127.0.0.1:15020"]`,
	} {
		k.byHand(t, name, args)
		k.awaitJob(t, name, "Failed")
		got := k.logs(t, k.jobPod(t, name), "tool")
		if !strings.Contains(got, "error:") || strings.Contains(got, "200 ") || strings.Contains(got, "connected") {
			t.Errorf("%s: the tool says %q", name, got)
		}
	}
}

// TestFileCapability: why the fence has an image of its own. A file with an effective capability does not start in a container that has
// dropped it, and the sidecar's file, without one, does.
func TestFileCapability(t *testing.T) {
	k := onNode(t, tierC).inNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	for _, name := range []string{"sidecar", "fence"} {
		k.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  restartPolicy: Never
  containers:
  - name: it
    image: `+image(name)+`
    args: [version]
    securityContext:
      runAsNonRoot: true
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
      seccompProfile: {type: RuntimeDefault}
`)
	}
	k.awaitPod(t, "sidecar", "Succeeded")
	if got := k.logs(t, "sidecar", "it"); !strings.Contains(got, " "+version+" ") {
		t.Errorf("the sidecar says %q", got)
	}
	k.awaitPod(t, "fence", "Failed")
	if got := k.logs(t, "fence", "it"); !strings.Contains(got, "exec /sidecar: operation not permitted") {
		t.Errorf("found %q, expected that the file does not start", got)
	}
}
