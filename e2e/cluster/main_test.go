//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// version is the release of the images under test.
const version = "0.0.0-test"

// world is the node under test; nil where the tests do not run. why says why not.
var (
	world *machine
	tier  string
	why   = "set TOOLGATE_CLUSTER=b or c, or use make e2e-cluster"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == nodeCommand { // up started this binary once more
		main()
		return
	}
	os.Exit(testMain(m))
}

// testMain runs the tests on a node, and takes it down if it brought it up. One that runs already is used and left, with the images of
// this checkout loaded again.
func testMain(m *testing.M) int {
	tier = os.Getenv("TOOLGATE_CLUSTER")
	if tier == "" {
		return m.Run()
	}
	ctx := context.Background()
	c, err := openCache()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n := c.machine(os.Getenv("TOOLGATE_CLUSTER_NAME"))
	if _, runs := n.running(); !runs {
		defer func() {
			if err := n.down(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "down:", err)
			}
		}()
	}
	err = n.up(ctx, tier, func(what string, seconds float64) { fmt.Printf("%6.2f s  %s\n", seconds, what) })
	if none := (refused{}); errors.As(err, &none) {
		why = err.Error()
		fmt.Fprintln(os.Stderr, "NOT TESTED:", why)
		return m.Run()
	}
	if err == nil && tier == tierC {
		err = errors.Join(importProducts(ctx, n), n.importTool(ctx)) // a node that ran already may have older ones
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	world = n
	return m.Run()
}

// products are the images under test.
func products() []string {
	all := []string{"sidecar", "fence", "killswitch"}
	if _, err := os.Stat("../../cmd/injector/main.go"); err == nil {
		all = append(all, "injector")
	}
	return all
}

// importProducts builds this checkout's images by deploy/oci, as a release is, and loads them.
func importProducts(ctx context.Context, n *machine) error {
	file := n.path("products.tar")
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "github.com/toolgate/toolgate/deploy/oci", "-o", file, "-version", version}, products()...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("deploy/oci: %w\n%s", err, out)
	}
	return n.importImages(ctx, file)
}

// image is the full name of one of the products.
func image(name string) string { return "toolgate/" + name + ":" + version }

// TestLeavesTheMachine: the node's mounts, devices and settings are its own, and it is found by its name alone.
func TestLeavesTheMachine(t *testing.T) {
	k := onNode(t, tierB)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, world.path()) || strings.Contains(line, "containerd") {
			t.Errorf("the machine has the node's mount: %s", line)
		}
	}
	if _, err := os.Stat("/sys/class/net/node0"); err == nil {
		t.Error("the machine has the node's bridge")
	}
	for _, name := range []string{"kernel/panic", "vm/overcommit_memory"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		masked, err := os.ReadFile(world.path("settings", strings.ReplaceAll(name, "/", "-")))
		if err != nil {
			t.Fatal(err)
		}
		inside := k.run(t, "cat", "/proc/sys/"+name)
		if inside != string(masked) {
			t.Errorf("%s is %q in the node, expected the mask's %q; the machine's is %q", name, inside, masked, text)
		}
	}
}

// TestDown starts a second node and takes it away, by its name and by the death of its first process.
func TestDown(t *testing.T) {
	onNode(t, tierB)
	n := world.cache.machine("second")
	t.Cleanup(func() {
		if err := n.down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := n.up(t.Context(), tierB, func(string, float64) {}); err != nil {
		t.Fatal(err)
	}
	if err := n.up(t.Context(), tierC, func(string, float64) {}); err == nil {
		t.Error("a node of tier b was taken for one of tier c")
	}
	s, _ := n.running()
	before := children(t, s.PID)
	if len(before) < 3 {
		t.Fatalf("found processes %v, expected etcd, API server and controllers", before)
	}
	if err := n.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range before {
		if now, err := startTime(pid); err == nil {
			t.Errorf("process %d is still there, of time %s", pid, now)
		}
	}
	if _, err := os.Stat(n.path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files are still there: %v", err)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + n.group()); left != nil {
		t.Errorf("its control groups are still there: %v", left)
	}
	if err := n.down(t.Context()); err != nil {
		t.Errorf("down without a node: %v", err)
	}
}

// children are the processes that pid started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for field := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
