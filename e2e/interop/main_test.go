package interop

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/grpclog"
)

// binDir holds the binary under test, built at most once in a run.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		// Before any connection is made, since grpc-go reads it without a lock.
		grpclog.SetLoggerV2(fatal{grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr)})
		var err error
		if binDir, err = os.MkdirTemp("", "toolgate-interop-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binDir) }()
		return m.Run()
	}())
}

// binary builds in the product's folder, so that the product's go.mod and not this module's chooses the versions.
func binary(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		bin := filepath.Join(binDir, name)
		build := exec.Command("go", "build", "-o", bin, "./cmd/"+name)
		build.Dir = "../.."
		out, err := build.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return bin, nil
	})
}

var sidecarBinary, killswitchBinary = binary("sidecar"), binary("killswitch")

// program returns the path of a program. Without it the test is skipped, or fails where everything is meant to be installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("MISSING with CI=true: %s is not installed", name)
	}
	t.Skipf("NOT TESTED: %s is not installed", name)
	return ""
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

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
