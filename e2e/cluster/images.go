//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// toolImage holds testdata/tool: the tests' tool, and with no arguments what keeps a pod's namespaces open. Its second file has the bit by
// which a process that starts it becomes the sidecar's user.
const toolImage = "toolgate.test/tool:1"

// importTool builds the tests' own image and loads it.
func (m *machine) importTool(ctx context.Context) error {
	const pkg = "github.com/toolgate/toolgate/e2e/cluster/testdata/tool"
	bin := m.path("tool")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	text, err := os.ReadFile(bin)
	if err != nil {
		return err
	}
	return m.importFiles(ctx, toolImage, layout.Run{User: "65534:65534", Entrypoint: []string{"/tool"}, Cmd: []string{"pause"}},
		layout.File{Path: "tool", Mode: 0o755, Data: text}, layout.File{Path: "setuid", Mode: 0o4755, Owner: 64117, Data: text}, layout.File{Path: "tmp/", Mode: 0o1777})
}

// importFiles makes an image out of files and loads it under name.
func (m *machine) importFiles(ctx context.Context, name string, run layout.Run, files ...layout.File) error {
	l, err := layout.NewLayer(files, time.Unix(0, 0).UTC())
	if err != nil {
		return err
	}
	image, err := layout.NewImage(layout.Config{Platform: layout.Platform{OS: "linux", Architecture: runtime.GOARCH}, Config: run}, l)
	if err != nil {
		return err
	}
	var all layout.Layout
	all.Add(name, image)
	f, err := os.Create(m.path("import.tar"))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(all.Write(f), f.Close()); err != nil {
		return err
	}
	return m.importImages(ctx, f.Name())
}

// importImages loads the images of an OCI tar into the node.
func (m *machine) importImages(ctx context.Context, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	out, err := m.command(ctx, "ctr", "-a", containerdSocket, "-n", "k8s.io", "images", "import", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr images import %s: %w\n%s", file, err, out)
	}
	return nil
}
