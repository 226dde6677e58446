package helm

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The versions of e2e/cluster, and of the Kubernetes whose schemas count.
const (
	helmVersion         = "v3.22.0"
	kubeconformVersion  = "v0.8.0"
	helmUnittestVersion = "v1.1.2"
	kubernetesVersion   = "v1.37.2"
	operatorVersion     = "v0.85.0" // of the Prometheus operator
)

const chart = "toolgate"

// cache is the folder that e2e/cluster fills.
func cache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("TOOLGATE_CLUSTER_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "toolgate-cluster")
}

// tool is the path of a program that e2e/cluster has built. Without it a test is skipped, unless CI runs it.
func tool(t *testing.T, name, version string) string {
	t.Helper()
	readChart(t)
	path := filepath.Join(cache(t), "bin", name+"-"+version+"-"+runtime.GOARCH, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: run go run ./e2e/cluster build -only chart", err)
		}
		t.Skipf("%v: run go run ./e2e/cluster build -only chart", err)
	}
	return path
}

// readChart reads every file of the chart in this process: the test cache does not see what a subprocess reads.
func readChart(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(chart, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a program and returns what it printed, on both streams where it failed.
func command(t *testing.T, stdin, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	// Neither a cluster nor the settings of whoever runs the test.
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null", "HELM_CONFIG_HOME="+t.TempDir(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

// render is helm template.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"template", "toolgate", chart, "--namespace", "toolgate", "--kube-version", kubernetesVersion}, args...)
	return command(t, "", tool(t, "helm", helmVersion), args...)
}

// values writes a values file.
func values(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
