//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"text/template"
	"time"
)

const containerdSocket = "/run/containerd.sock" // in the node's own /run

//go:embed conf
var conf embed.FS

// bring starts the components of a tier in the order in which they need each other.
func (m *machine) bring(ctx context.Context, i *initProcess, tier string, report func(string) error) error {
	if err := m.certificates(); err != nil {
		return err
	}
	if err := m.configure(); err != nil {
		return err
	}
	if tier == tierC {
		if err := m.makeGroups(); err != nil {
			return err
		}
		if err := i.start(m, "containerd", "containerd", "-c", m.path("conf/containerd.toml")); err != nil {
			return err
		}
	}
	api, err := m.control(ctx, i, tier)
	if err != nil {
		return err
	}
	if err := report("API server"); err != nil {
		return err
	}
	if tier == tierC {
		if err := m.pods(ctx, i, api); err != nil {
			return err
		}
		if err := report("node Ready"); err != nil {
			return err
		}
	}
	// Pods are refused before their namespace has it.
	return i.await(ctx, func() error { return api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil) })
}

// control starts etcd, the API server and the controllers, and returns when the API server is ready.
func (m *machine) control(ctx context.Context, i *initProcess, tier string) (*apiClient, error) {
	pki := func(name string) string { return m.path("pki", name) }
	if err := i.start(m, "etcd", "etcd", "--name=node", "--data-dir="+m.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=node=http://127.0.0.1:2380"); err != nil {
		return nil, err
	}
	reconciler := "none"
	if tier == tierC {
		reconciler = "lease" // the service "kubernetes" leads to the API server
	}
	if err := i.start(m, "apiserver", "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443",
		"--advertise-address="+nodeIP, "--endpoint-reconciler-type="+reconciler, "--service-cluster-ip-range="+serviceRange,
		"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"), "--client-ca-file="+pki("ca.crt"),
		"--requestheader-client-ca-file="+pki("ca.crt"), "--requestheader-allowed-names=front-proxy", // the controllers wait for one
		"--kubelet-certificate-authority="+pki("ca.crt"), "--kubelet-client-certificate="+pki("admin.crt"), "--kubelet-client-key="+pki("admin.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file="+pki("sa.pub"), "--service-account-signing-key-file="+pki("sa.key"), "--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false", "--v=1",
		"--enable-aggregator-routing=true", // webhooks behind a service are called at its endpoints, without kube-proxy
	); err != nil {
		return nil, err
	}
	api, err := m.apiClient()
	if err != nil {
		return nil, err
	}
	if err := i.await(ctx, func() error { return api.get(ctx, "/readyz", nil) }); err != nil {
		return nil, fmt.Errorf("the API server is not ready: %w", err)
	}
	config := "--kubeconfig=" + m.path("kcm.kubeconfig")
	return api, i.start(m, "kcm", "kube-controller-manager", config, "--authentication-"+config[2:], "--authorization-"+config[2:],
		"--service-account-private-key-file="+pki("sa.key"), "--root-ca-file="+pki("ca.crt"), "--use-service-account-credentials=true",
		"--cluster-signing-cert-file="+pki("ca.crt"), "--cluster-signing-key-file="+pki("ca.key"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--profiling=false")
}

// pods starts what runs pods, and returns when the node is ready for them.
func (m *machine) pods(ctx context.Context, i *initProcess, api *apiClient) error {
	config := "--kubeconfig=" + m.path("scheduler.kubeconfig")
	if err := i.start(m, "scheduler", "kube-scheduler", config, "--authentication-"+config[2:], "--authorization-"+config[2:],
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"); err != nil {
		return err
	}
	if err := i.await(ctx, func() error {
		c, err := net.Dial("unix", containerdSocket)
		if err != nil {
			return err
		}
		return c.Close()
	}); err != nil {
		return fmt.Errorf("containerd does not listen: %w", err)
	}
	if err := i.start(m, "kubelet", "kubelet", "--config="+m.path("conf/kubelet.yaml"), "--kubeconfig="+m.path("kubelet.kubeconfig"),
		"--hostname-override="+nodeName, "--node-ip="+nodeIP+","+nodeIP6, "--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki", "--v=2"); err != nil {
		return err
	}
	if err := i.await(ctx, func() error { return api.nodeReady(ctx) }); err != nil {
		return err
	}
	if err := (names{api}).serve(); err != nil {
		return err
	}
	return i.start(m, "kube-proxy", "kube-proxy", "--config="+m.path("conf/kube-proxy.yaml"), "--v=1")
}

// await polls until f succeeds, ctx ends or a component is lost.
func (i *initProcess) await(ctx context.Context, f func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case lost := <-i.lost:
			return lost
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// configure writes the components' files.
func (m *machine) configure() error {
	all, err := template.ParseFS(conf, "conf/*")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.path("conf/cni"), 0o755); err != nil {
		return err
	}
	values := map[string]string{"Run": m.path(), "CNI": m.cache.debian() + "/usr/lib/cni", "Group": m.group(), "NodeIP": nodeIP,
		"PodRange": podRange, "PodRange6": podRange6, "PauseImage": toolImage, "Socket": containerdSocket}
	for _, t := range all.Templates() {
		name := m.path("conf", t.Name())
		if strings.HasSuffix(name, ".conflist") {
			name = m.path("conf/cni", t.Name())
		}
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		if err := errors.Join(t.Execute(f, values), f.Close()); err != nil {
			return err
		}
	}
	return os.WriteFile(m.path("conf/resolv.conf"), []byte("nameserver "+nodeIP+"\n"), 0o644)
}

// apiClient asks the API server as the administrator.
type apiClient struct{ http *http.Client }

func (m *machine) apiClient() (*apiClient, error) {
	pair, err := tls.LoadX509KeyPair(m.path("pki/admin.crt"), m.path("pki/admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(m.path("pki/ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &apiClient{&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}}, nil
}

// get decodes the answer into v unless it is nil.
func (a *apiClient) get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://127.0.0.1:6443"+path, nil)
	if err != nil {
		return err
	}
	res, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", path, res.Status)
	case v == nil:
		return nil
	}
	return json.Unmarshal(text, v)
}

// nodeReady is nil when pods are scheduled: the node says Ready, and nothing taints it any more.
func (a *apiClient) nodeReady(ctx context.Context) error {
	var node struct {
		Spec   struct{ Taints []struct{ Key string } }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := a.get(ctx, "/api/v1/nodes/"+nodeName, &node); err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node is tainted: %v", node.Spec.Taints)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("the node is not Ready: %+v", node.Status.Conditions)
}
