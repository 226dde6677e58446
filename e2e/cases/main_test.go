//go:build linux

package cases

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/e2e/sources"
)

// resolvConf has a search list that would turn api.ok.test into a name of the cluster.
const resolvConf = "nameserver " + addrNS + "\nsearch svc.cluster.local cluster.local\noptions ndots:5\n"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	var code int
	var err error
	if sidecar := os.Getenv(insideEnv); sidecar == "" {
		code, err = outside()
	} else if err = setUp(filepath.Join(filepath.Dir(sidecar), "resolv.conf")); err == nil {
		code = m.Run()
	}
	switch {
	case errors.Is(err, errNoNamespace) && os.Getenv("CI") != "true":
		fmt.Fprintf(os.Stderr, "NOT TESTED: %v\n", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// outside builds the sidecar and the control plane, which may need the network, and runs the tests inside.
func outside() (int, error) {
	dir, err := os.MkdirTemp("", "toolgate-cases-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // users of a pod run what is in it
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolvConf), 0o644); err != nil {
		return 0, err
	}
	bin := filepath.Join(dir, "sidecar")
	args := []string{"build", "-o", dir}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/toolgate/toolgate/cmd/sidecar", "github.com/toolgate/toolgate/cmd/killswitch", "github.com/toolgate/toolgate/cmd/injector")...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return runInside(bin)
}

// TestCases runs every case. One of them: go test ./e2e/cases -run 'TestCases/address/ADR-01$'
func TestCases(t *testing.T) {
	note(t)
	l := newLab(t)
	for _, a := range areas() {
		t.Run(a.name, func(t *testing.T) {
			w := l.world(t)
			for _, c := range a.cases {
				t.Run(c.id, func(t *testing.T) {
					l.begin()
					c.run(t, w)
					l.check(t)
				})
			}
		})
	}
}

// note makes the test's result good for these sources only.
func note(t *testing.T) {
	t.Helper()
	if err := sources.Note("../.."); err != nil {
		t.Fatal(err)
	}
}
