package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

const module = "github.com/toolgate/toolgate"

// program is a binary with its bill of materials.
type program struct {
	binary []byte
	sbom   []byte
}

// compiler builds each program once for each platform.
type compiler struct {
	source  string // the checkout, empty for the working folder's
	dir     string // for binaries
	version string
	done    map[string]program
}

func (c *compiler) build(ctx context.Context, name string, p layout.Platform) (program, error) {
	key := name + "-" + p.Architecture
	if done, ok := c.done[key]; ok {
		return done, nil
	}
	file := filepath.Join(c.dir, key)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", file,
		"-ldflags", "-s -w -buildid= -X "+module+"/cmd/cli.version="+c.version, module+"/cmd/"+name)
	cmd.Dir = c.source
	// What would change the binary from one machine to the next is set here. GOPROXY and its like are left as they are.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GODEBUG=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off",
		"GOOS="+p.OS, "GOARCH="+p.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("go build ./cmd/%s: %w\n%s", name, err, out)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return program{}, err
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return program{}, err
	}
	sbom, err := billOfMaterials(name, c.version, binary, info)
	if err != nil {
		return program{}, err
	}
	c.done[key] = program{binary, sbom}
	return c.done[key], nil
}
