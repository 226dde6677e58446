//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// build makes what a tier needs and the cache lacks.
func (c cache) build(ctx context.Context, tier string, log io.Writer) error {
	for _, s := range sources() {
		if !s.of(tier) || s.built(c) {
			continue
		}
		fmt.Fprintf(log, "building %s %s\n", s.name, s.version)
		if err := c.buildSource(ctx, s, log); err != nil {
			return fmt.Errorf("%s %s: %w", s.name, s.version, err)
		}
	}
	if tier != tierC || c.hasDebian() {
		return nil
	}
	fmt.Fprintln(log, "unpacking Debian's containerd, runc and CNI plugins")
	return c.unpackDebian(ctx, log)
}

func (s source) built(c cache) bool {
	for _, p := range s.programs() {
		if _, err := os.Stat(filepath.Join(c.folder(s), p)); err != nil {
			return false
		}
	}
	return true
}

// buildSource builds in a module of its own, since a module's replace directives hold only where it is the main one. The folder is
// renamed when all is there.
func (c cache) buildSource(ctx context.Context, s source, log io.Writer) error {
	dir, err := os.MkdirTemp(string(c), "build-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := c.goMod(ctx, dir, s); err != nil {
		return err
	}
	goTool := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		return cmd.Run()
	}
	get := []string{"get", "-tool"}
	for _, p := range s.packages {
		get = append(get, p+"@"+s.version)
	}
	if err := goTool(get...); err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	if len(s.packages) == 1 { // the package's folder may have another name, such as v3
		bin = filepath.Join(bin, s.name)
	} else {
		bin += "/"
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	if err := goTool(append([]string{"build", "-trimpath", "-ldflags", "-s -w " + s.ldflags, "-o", bin}, s.packages...)...); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("bin"), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(c.folder(s)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "bin"), c.folder(s))
}

// goMod writes the module to build in. Kubernetes replaces its staged modules by folders, which its published form lacks: their releases
// have the same number, v0 for v1.
func (c cache) goMod(ctx context.Context, dir string, s source) error {
	text := "module scratch\n\ngo 1.26.0\n"
	if s.replace != "" {
		text += "\nreplace " + s.replace + "\n"
	}
	if s.name == "kubernetes" {
		cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+s.version)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var module struct{ GoMod string }
		if err := json.Unmarshal(out, &module); err != nil {
			return err
		}
		theirs, err := os.ReadFile(module.GoMod)
		if err != nil {
			return err
		}
		text = stagedMod(string(theirs), s.version)
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644)
}

var (
	goLine = regexp.MustCompile(`(?m)^go (\d+\.\d+)(\.\d+)?$`)
	staged = regexp.MustCompile(`(?m)^\s*(?:replace )?(k8s\.io/[a-z0-9.-]+) => \./staging/`)
)

// stagedMod is a module that requires Kubernetes, out of Kubernetes' own go.mod.
func stagedMod(theirs, version string) string {
	g := goLine.FindStringSubmatch(theirs)
	if g == nil {
		g = []string{"", "1.26", ".0"}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module scratch\n\ngo %s%s\n\ngodebug default=go%s\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n", g[1], g[2], g[1], version)
	for _, m := range staged.FindAllStringSubmatch(theirs, -1) {
		fmt.Fprintf(&b, "\t%s => %s v0%s\n", m[1], m[1], strings.TrimPrefix(version, "v1"))
	}
	b.WriteString(")\n")
	return b.String()
}
