//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// release is the chart on the node, with replicas of the injector that are processes of this test: they run with the arguments, the settings
// and the rights that the chart gives its pods, and the API server finds them behind the chart's Service. So it needs no kubelet.
type release struct {
	*kube
	api      rest
	program  string
	addMore  []string // arguments after the chart's
	replicas map[string]*replica
}

// replica is one process of the injector at an address of its own.
type replica struct {
	address string
	cmd     *exec.Cmd
	log     string
	ended   chan error
	http    *http.Client
}

// byProcesses keeps the chart's own pods from running on a whole node.
const byProcesses = `
killSwitch: {enabled: false}
injector: {nodeSelector: {toolgate.test/none: none}, shutdownDelay: 3s}
`

// manifestOf is the text of a tool's manifest, for values and objects alike.
func manifestOf(name, domain string) string {
	return `{name: ` + name + `, owner: e2e, version: "1", description: Reads., risk: low, capabilityClasses: [read_private], sideEffects: none,` +
		` idempotencyRequired: false, approvalRequired: false, timeoutMs: 10000, egress: {allowedDomains: [` + domain + `]}}`
}

// orders is a value of the chart: one tool.
var orders = "manifests: {orders: '" + manifestOf("orders", "orders.example") + "'}\n"

// newRelease installs the chart without starting replicas, and takes everything away after the test.
func newRelease(t *testing.T, values string) *release {
	t.Helper()
	k := &kube{onNode(t, tierB).m, "toolgate-" + strings.ToLower(t.Name())[:min(len(t.Name()), 40)]} // its own, as one takes seconds to go
	r := &release{kube: k, api: k.rest(t), program: k.m.path("injector"), replicas: map[string]*replica{}}
	if err := buildInjector(r.program); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "create", "namespace", k.namespace)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, one := range r.replicas {
			if t.Failed() {
				t.Logf("injector at %s\n%s", one.address, one.lastLines(20))
			}
			_ = one.cmd.Process.Kill()
			<-one.ended
		}
		_ = k.m.command(ctx, k.m.cache.program("helm"), "-n", k.namespace, "uninstall", "toolgate", "--wait").Run() // it may not be installed
		if err := k.try(nil, "delete", "crd", "toolmanifests.toolgate.dev", "--ignore-not-found"); err != nil {     // helm keeps it
			t.Error(err)
		}
		if err := k.try(nil, "delete", "namespace", k.namespace, "--wait=false"); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	r.install(t, values)
	return r
}

var built sync.Map // program -> how its build went, once

// buildInjector builds this checkout's injector as a release does.
func buildInjector(program string) error {
	once, _ := built.LoadOrStore(program, sync.OnceValue(func() error {
		cmd := exec.Command("go", "build", "-trimpath", "-o", program, "github.com/toolgate/toolgate/cmd/injector")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
		return nil
	}))
	return once.(func() error)()
}

func (r *release) install(t *testing.T, values string) {
	t.Helper()
	r.helm(t, byProcesses+values, "install", "toolgate", chart, "-f", "-", "--set", "image.registry=docker.io,image.tag="+version)
}

// serving is newRelease with two replicas behind the Service.
func serving(t *testing.T, values string, more ...string) *release {
	t.Helper()
	r := newRelease(t, values)
	r.addMore = more
	for _, address := range []string{"10.90.0.21", "10.90.0.22"} {
		r.start(t, address)
	}
	r.endpoints(t, "10.90.0.21", "10.90.0.22")
	r.awaitHook(t)
	return r
}

// start starts a replica as the Deployment says, and returns when it is ready.
func (r *release) start(t *testing.T, address string) {
	t.Helper()
	dir := t.TempDir()
	paths := strings.NewReplacer("/etc/toolgate/", dir+"/etc/", "/run/toolgate", dir+"/run", "$(POD_NAMESPACE)", r.namespace,
		"=:8443", "="+address+":8443", "=:8080", "="+address+":8080")
	if err := os.Mkdir(dir+"/run", 0o755); err != nil {
		t.Fatal(err)
	}
	r.mount(t, "toolgate-settings", dir+"/etc/settings", paths)
	r.mount(t, "toolgate-manifests", dir+"/etc/tools", paths)
	var d struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []struct{ Args []string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(r.kubectl(t, "get", "deployment", "toolgate-injector", "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	// kubectl's own credentials are the administrator's; the replica has those of the chart's service account alone.
	token := strings.TrimSpace(r.kubectl(t, "create", "token", "toolgate-injector", "--duration=1h"))
	config := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: node, cluster: {server: \"https://127.0.0.1:6443\", certificate-authority: %q}}]\n"+
		"users: [{name: injector, user: {token: %q}}]\ncontexts: [{name: node, context: {cluster: node, user: injector}}]\ncurrent-context: node\n", r.m.path("pki/ca.crt"), token)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig=" + config}
	for _, a := range d.Spec.Template.Spec.Containers[0].Args {
		args = append(args, paths.Replace(a))
	}
	r.run(t, "ip", "addr", "replace", address+"/24", "dev", "node0")
	r.spawn(t, address, filepath.Join(dir, "log"), append(append([]string{args[1], args[0]}, args[2:]...), r.addMore...))
}

// mount writes a ConfigMap's files, as kubelet does.
func (r *release) mount(t *testing.T, name, dir string, paths *strings.Replacer) {
	t.Helper()
	var m struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(r.kubectl(t, "get", "configmap", name, "-o", "json")), &m); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range m.Data {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(paths.Replace(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *release) spawn(t *testing.T, address, log string, args []string) {
	t.Helper()
	s, _ := r.m.running()
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// In the node's network alone: with its pid namespace, nsenter would stand between us and the program, and keep signals.
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(s.PID), "-n", "--", r.program}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = f, f, []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	one := &replica{address: address, cmd: cmd, log: log, ended: make(chan error, 1),
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: r.m.dial, DisableKeepAlives: true}}}
	go func() { one.ended <- cmd.Wait() }()
	r.replicas[address] = one
	r.await(t, "injector at "+address, func() error {
		select {
		case err := <-one.ended:
			one.ended <- err
			t.Fatalf("injector at %s has ended: %v\n%s", address, err, one.lastLines(20))
		default:
		}
		_, err := one.get("/readyz")
		return err
	})
}

// get reads a page of a replica's port for health and metrics.
func (one *replica) get(path string) (string, error) {
	res, err := one.http.Get("http://" + one.address + ":8080" + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	return string(text), err
}

func (one *replica) lastLines(n int) string {
	text, _ := os.ReadFile(one.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// metrics adds the samples of the replica to all, by name and labels.
func (one *replica) metrics(t *testing.T, all map[string]float64) {
	t.Helper()
	text, err := one.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		end := strings.LastIndexByte(s.Text(), ' ')
		if end < 0 || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		v, err := strconv.ParseFloat(s.Text()[end+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[s.Text()[:end]] += v
	}
}

// endpoints writes which addresses are behind the chart's Service, as the cluster's controller would of ready pods.
func (r *release) endpoints(t *testing.T, addresses ...string) {
	t.Helper()
	var b strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: true}}\n", a)
	}
	list := "endpoints:\n" + b.String()
	if len(addresses) == 0 {
		list = "endpoints: []\n"
	}
	r.apply(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: by-hand, labels: {kubernetes.io/service-name: toolgate-injector}}
addressType: IPv4
ports: [{name: webhook, port: 8443, protocol: TCP}]
`+list)
}

// terminate ends a replica as kubelet does, and waits for its end.
func (r *release) terminate(t *testing.T, address string) {
	t.Helper()
	one := r.replicas[address]
	delete(r.replicas, address)
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-one.ended:
		if err != nil {
			t.Errorf("injector at %s: found %v, expected exit code 0\n%s", address, err, one.lastLines(10))
		}
	case <-time.After(patience):
		t.Fatalf("injector at %s does not end", address)
	}
}

// stopAll leaves nobody to answer.
func (r *release) stopAll(t *testing.T) {
	t.Helper()
	for address, one := range r.replicas {
		_ = one.cmd.Process.Kill()
		<-one.ended
		delete(r.replicas, address)
	}
}

// awaitHook returns once the API server asks the webhook and heeds the policies, which it learns of a moment after the chart's installation.
func (r *release) awaitHook(t *testing.T) {
	t.Helper()
	r.probe(t, "the webhook", `{name: probe, annotations: {toolgate/typo: x}}`, "toolgate/typo")
	r.probe(t, "the backstop", `{name: probe}`, "hostPath")
}

// probe polls until a pod of a namespace with the label is refused with a sentence.
func (r *release) probe(t *testing.T, what, metadata, wants string) {
	t.Helper()
	space := r.namespace + "-probe"
	if err := r.try(nil, "create", "namespace", space); err == nil {
		t.Cleanup(func() { _ = r.try(nil, "delete", "namespace", space, "--wait=false") })
		r.kubectl(t, "label", "namespace", space, "toolgate/inject=enabled", "toolgate/tool=orders")
	}
	pod := `{apiVersion: v1, kind: Pod, metadata: ` + metadata + `, spec: {containers: [{name: t, image: t}], volumes: [{name: h, hostPath: {path: /run}}]}}`
	r.await(t, what, func() error {
		a, err := r.api.create(t.Context(), space, pod, true)
		if err != nil {
			return err
		}
		if !strings.Contains(a.message(), wants) {
			return errors.New("found " + strconv.Itoa(a.code) + " " + a.message())
		}
		return nil
	})
}
