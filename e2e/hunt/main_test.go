package hunt

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/e2e/sources"
)

// binDir holds the binary under test, built once in a run.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binDir, err = os.MkdirTemp("", "toolgate-hunt-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binDir) }()
		return m.Run()
	}())
}

var sidecarBinary = sync.OnceValues(func() (string, error) { return sources.Build("../..", binDir, "sidecar") })

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
