//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Versions of what is built. A change gives another folder in the cache, so that an old one is never taken for a new one.
const (
	kubernetesVersion   = "v1.37.2"
	etcdVersion         = "v3.7.3"
	helmVersion         = "v3.22.0"
	kubeconformVersion  = "v0.8.0"
	helmUnittestVersion = "v1.1.2"
)

// Tiers of tests, and what they need.
const (
	tierChart = "chart" // programs that check a chart, without any server
	tierB     = "b"     // etcd and the control plane
	tierC     = "c"     // a node
)

// source is a Go module whose commands are built.
type source struct {
	name, version string
	packages      []string // of commands; the last element names the program
	replace       string   // a line of go.mod
	ldflags       string
	tiers         []string
}

func sources() []source {
	const helm = "helm.sh/helm/v3/pkg/"
	minor := strings.Split(kubernetesVersion, ".")[1]
	return []source{
		{name: "etcd", version: etcdVersion, packages: []string{"go.etcd.io/etcd/server/v3"}, tiers: []string{tierB, tierC}},
		// Built as a module, helm takes the cluster for Kubernetes 1.20 wherever it asks none.
		{name: "helm", version: helmVersion, packages: []string{"helm.sh/helm/v3/cmd/helm"}, tiers: []string{tierChart, tierB, tierC},
			ldflags: fmt.Sprintf("-X %[1]schartutil.k8sVersionMajor=1 -X %[1]schartutil.k8sVersionMinor=%[2]s -X %[1]slint/rules.k8sVersionMajor=1 -X %[1]slint/rules.k8sVersionMinor=%[2]s", helm, minor)},
		{name: "kubeconform", version: kubeconformVersion, packages: []string{"github.com/yannh/kubeconform/cmd/kubeconform"}, tiers: []string{tierChart, tierC}},
		{name: "helm-unittest", version: helmUnittestVersion, packages: []string{"github.com/helm-unittest/helm-unittest/cmd/helm-unittest"}, tiers: []string{tierChart, tierC},
			replace: "github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0"}, // as its own go.mod has it
		{name: "kubernetes", version: kubernetesVersion, tiers: []string{tierB, tierC}, packages: kubernetesCommands()},
	}
}

// programs are the names of what is built.
func (s source) programs() []string {
	if s.name != "kubernetes" {
		return []string{s.name}
	}
	var names []string
	for _, p := range s.packages {
		names = append(names, filepath.Base(p))
	}
	return names
}

func kubernetesCommands() []string {
	var all []string
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "kube-proxy"} {
		all = append(all, "k8s.io/kubernetes/cmd/"+name)
	}
	return all
}

// cache is the folder that keeps what is built, outside of the checkout.
type cache string

func openCache() (cache, error) {
	dir := os.Getenv("TOOLGATE_CLUSTER_CACHE")
	if dir == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, "toolgate-cluster")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return cache(dir), os.MkdirAll(dir, 0o755)
}

func (c cache) path(elem ...string) string {
	return filepath.Join(append([]string{string(c)}, elem...)...)
}

// folder holds the programs of one source.
func (c cache) folder(s source) string {
	return c.path("bin", s.name+"-"+s.version+"-"+runtime.GOARCH)
}

// program is the path of a built program, or of one of Debian's.
func (c cache) program(name string) string {
	for _, s := range sources() {
		for _, p := range s.programs() {
			if p == name {
				return filepath.Join(c.folder(s), name)
			}
		}
	}
	return filepath.Join(c.debian(), "usr/bin", name)
}

// missing is an error that names what a tier needs and the cache lacks.
func (c cache) missing(tier string) error {
	var lacks []string
	for _, s := range sources() {
		if !s.of(tier) {
			continue
		}
		for _, p := range s.programs() {
			if _, err := os.Stat(c.program(p)); err != nil {
				lacks = append(lacks, p+" "+s.version)
			}
		}
	}
	if tier == tierC && !c.hasDebian() {
		lacks = append(lacks, "Debian's containerd, runc and CNI plugins")
	}
	if lacks != nil {
		return fmt.Errorf("%s lacks %s: go run ./e2e/cluster build", c, strings.Join(lacks, ", "))
	}
	return nil
}

func (s source) of(tier string) bool {
	for _, t := range s.tiers {
		if t == tier {
			return true
		}
	}
	return false
}

// machine is a node by name, with a folder for all that it writes.
type machine struct {
	cache cache
	name  string
}

func (c cache) machine(name string) *machine { return &machine{c, cmp.Or(name, "main")} }

func (m *machine) path(elem ...string) string {
	return m.cache.path(append([]string{"run", m.name}, elem...)...)
}
