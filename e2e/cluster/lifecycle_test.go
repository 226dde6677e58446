//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nextValues is another release's: other images from another place, other figures, one more tool.
var nextValues = byProcesses + "manifests: {orders: '" + manifestOf("orders", "orders.example") + "', mail: '" + manifestOf("mail", "mail.example") + "'}\n" +
	"sidecar: {resources: {requests: {cpu: 7m, memory: 31Mi}, limits: {cpu: 900m, memory: 99Mi}}}\n"

// TestLifecycle: the chart is upgraded, rolled back, uninstalled and installed again while pods are there. The pods stay as they are and can
// be reported on and ended, and the webhook is trusted throughout.
func TestLifecycle(t *testing.T) {
	r := serving(t, orders)
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	k.apply(t, "{apiVersion: toolgate.dev/v1alpha1, kind: ToolManifest, metadata: {name: kept}, spec: "+manifestOf("kept", "kept.example")+"}")
	first, _ := k.admit(t, r.api, spec{name: "first"}, false)
	ca := r.bundle(t)
	if ca == "" {
		t.Fatal("the webhook has no caBundle")
	}

	next := nextChart(t)
	r.helm(t, nextValues, "upgrade", "toolgate", next, "-f", "-", "--set", "image.registry=docker.io,image.tag=next")
	r.trusted(t, ca)
	k.admit(t, r.api, spec{name: "between"}, true) // by the replicas of before
	r.replace(t, "10.90.0.21", "10.90.0.23")
	r.replace(t, "10.90.0.22", "10.90.0.24")
	second, _ := k.admit(t, r.api, spec{name: "second", annotations: "toolgate/tool: mail"}, false)
	sidecar := second.Spec.InitContainers[0]
	if sidecar.Image != "docker.io/toolgate/sidecar:next" || sidecar.Resources.Limits["memory"] != "99Mi" || !strings.Contains(sidecar.env("TOOLGATE_CONFIG"), "mail.example") {
		t.Errorf("found %+v after the upgrade", sidecar)
	}
	k.untouched(t, first)
	if got := r.helm(t, "", "list"); !strings.Contains(got, "toolgate-9.9.9") {
		t.Errorf("found %s", got)
	}

	// Another place for images: replicas of before go on giving the old one, and the policy takes both while they are replaced.
	r.helm(t, nextValues, "upgrade", "toolgate", next, "-f", "-", "--set", "image.registry=mirror.test,image.tag=next")
	if got := r.kubectl(t, "get", "validatingadmissionpolicy", "toolgate-fenced-pods", "-o", "yaml"); !strings.Contains(got, "expected one of mirror.test/toolgate/sidecar, docker.io/toolgate/sidecar") {
		t.Errorf("the policy does not take the images of both: %s", got)
	}
	k.admit(t, r.api, spec{name: "between"}, true)
	r.replace(t, "10.90.0.23", "10.90.0.25")
	k.await(t, "pods while the replicas are of two releases", func() error { return k.fromMirror(t, r.api, false) })
	r.replace(t, "10.90.0.24", "10.90.0.26")
	k.await(t, "an image from the new place", func() error { return k.fromMirror(t, r.api, true) })
	k.untouched(t, first)
	k.untouched(t, second)

	r.helm(t, "", "rollback", "toolgate", "1")
	r.trusted(t, ca)
	r.replace(t, "10.90.0.25", "10.90.0.21")
	r.replace(t, "10.90.0.26", "10.90.0.22")
	third, _ := k.admit(t, r.api, spec{name: "third"}, false)
	if got := third.Spec.InitContainers[0].Image; got != "docker.io/toolgate/sidecar:"+version {
		t.Errorf("found %s after the rollback", got)
	}
	if err := k.mustRefuse(t, r.api, spec{name: "fourth", annotations: "toolgate/tool: mail"}.String(), "mail"); err != nil {
		t.Error(err)
	}
	k.untouched(t, first)
	k.untouched(t, second)

	for _, address := range []string{"10.90.0.21", "10.90.0.22"} {
		r.terminate(t, address)
	}
	r.helm(t, "", "uninstall", "toolgate")
	k.kubectl(t, "get", "tm", "kept")
	r.kubectl(t, "get", "secret", "toolgate-ca", "toolgate-injector-tls", "toolgate-killswitch-key")
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "clusterrole,clusterrolebinding"} {
		if got := r.kubectl(t, "get", kind, "-l", "app.kubernetes.io/instance=toolgate", "-o", "name"); got != "" {
			t.Errorf("uninstalling left %s", got)
		}
	}
	k.await(t, "a pod as without Toolgate", func() error {
		a, err := r.api.create(t.Context(), k.namespace, spec{name: "free"}.String(), true)
		if err == nil && a.code != 201 {
			err = fmt.Errorf("found %d %s", a.code, a.message())
		}
		return err
	})
	k.untouched(t, first)

	r.install(t, orders)
	for _, address := range []string{"10.90.0.21", "10.90.0.22"} {
		r.start(t, address)
	}
	r.awaitHook(t)
	r.trusted(t, ca)
	if p, _ := k.admit(t, r.api, spec{name: "again", annotations: "toolgate/tool: kept"}, false); p.gated() != nil {
		t.Error(p.gated())
	}
	k.untouched(t, third)
	for _, p := range k.pods(t, r.api) {
		k.kubectl(t, "delete", "pod", p.Metadata.Name, "--force", "--grace-period=0")
	}
	k.kubectl(t, "delete", "tm", "kept")
}

// fromMirror reports, by its error, that a pod is refused, or that its sidecar is not from the mirror although only that is left.
func (k *kube) fromMirror(t *testing.T, r rest, only bool) error {
	a, err := r.create(t.Context(), k.namespace, spec{name: "between"}.String(), true)
	switch {
	case err != nil:
		return err
	case a.code != 201:
		return fmt.Errorf("found %d %s", a.code, a.message())
	case only && !strings.Contains(string(a.body), "mirror.test/toolgate/sidecar:next"):
		return errors.New("the image is from before")
	}
	return nil
}

// nextChart is this chart with a higher version.
func nextChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "toolgate")
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "version:") {
			line = "version: 9.9.9\n"
		}
		if strings.HasPrefix(line, "appVersion:") {
			line = "appVersion: \"9.9.9\"\n"
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bundle is the CA that the API server trusts for pods, in base64.
func (r *release) bundle(t *testing.T) string {
	t.Helper()
	return r.kubectl(t, "get", "mutatingwebhookconfiguration", "toolgate-injector", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
}

// trusted fails the test unless both configurations have this bundle.
func (r *release) trusted(t *testing.T, ca string) {
	t.Helper()
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		if got := r.kubectl(t, "get", kind, "toolgate-injector", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"); got != ca {
			t.Errorf("%s: found another caBundle, of %d bytes, expected that of before", kind, len(got))
		}
	}
}

// untouched fails the test unless a pod is as it was, and unless it can be labelled and reported on.
func (k *kube) untouched(t *testing.T, was stored) {
	t.Helper()
	name := was.Metadata.Name
	var is stored
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pod", name, "-o", "json")), &is); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(is.Spec) != fmt.Sprint(was.Spec) {
		t.Errorf("pod %s: found %+v, expected %+v", name, is.Spec, was.Spec)
	}
	k.kubectl(t, "label", "pod", name, "seen=yes", "--overwrite")
	k.kubectl(t, "label", "pod", name, "seen-")
	k.kubectl(t, "patch", "pod", name, "--subresource=status", "--type=merge", `-p={"status": {"message": "reported"}}`)
	k.kubectl(t, "patch", "pod", name, "--subresource=status", "--type=merge", `-p={"status": {"message": ""}}`)
}
