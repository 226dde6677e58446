//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// debianPackages are unpacked into the cache and not installed: what runs pods, and kube-proxy's nft with its libraries.
var debianPackages = []string{"containerd", "runc", "containernetworking-plugins",
	"nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12", "libgmp10", "libedit2", "libbsd0", "libmd0", "libtinfo6", "libseccomp2"}

// debian is where they are unpacked: one folder for each release of Debian, since its programs use the libraries of the machine.
func (c cache) debian() string {
	release := "unknown"
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			release = strings.Trim(name, `"`)
		}
	}
	return c.path("debian-" + release + "-" + runtime.GOARCH)
}

// libraries are the folders of the unpacked packages' shared libraries.
func (c cache) libraries() string {
	dirs, _ := filepath.Glob(filepath.Join(c.debian(), "usr/lib/*-linux-gnu"))
	more, _ := filepath.Glob(filepath.Join(c.debian(), "lib/*-linux-gnu"))
	return strings.Join(append(dirs, more...), ":")
}

func (c cache) hasDebian() bool {
	for _, name := range []string{"usr/bin/containerd", "usr/bin/ctr", "usr/lib/cni/bridge", "usr/sbin/nft", "usr/sbin/runc"} {
		if _, err := os.Stat(filepath.Join(c.debian(), name)); err != nil {
			return false
		}
	}
	return true
}

func (c cache) unpackDebian(ctx context.Context, log io.Writer) error {
	dir, err := os.MkdirTemp(string(c), "debian-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, args := range [][]string{{"update", "-q"}, append([]string{"download", "-q"}, debianPackages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if out, err := exec.CommandContext(ctx, "dpkg", "-x", deb, filepath.Join(dir, "root")).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg -x %s: %w\n%s", filepath.Base(deb), err, out)
		}
	}
	if err := os.RemoveAll(c.debian()); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "root"), c.debian())
}
