package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSidecarLinksNoServer: what runs beside every tool must not carry the control plane's parts.
func TestSidecarLinksNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/toolgate/toolgate/cmd/sidecar").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		found = found || dep == "github.com/nats-io/nats.go"
		for _, barred := range []string{"github.com/nats-io/nats-server/", "k8s.io/", "github.com/toolgate/toolgate/killswitch/central", "github.com/toolgate/toolgate/killswitch/bus/bustest"} {
			if strings.HasPrefix(dep+"/", barred) || strings.HasPrefix(dep, barred) {
				t.Errorf("the sidecar links %s", dep)
			}
		}
	}
	if !found {
		t.Error("the list lacks nats.go, so it is not the sidecar's")
	}
}
