package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

var amd64 = layout.Platform{OS: "linux", Architecture: "amd64"}

// tarball is what the command writes, made once for all tests.
var tarball = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "toolgate-oci-test-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "images.tar")
	if err := run(context.Background(), []string{"-o", out, "-version", "1.2.3", "sidecar", "fence"}, io.Discard, io.Discard); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

func made(t *testing.T) read {
	t.Helper()
	text, err := tarball()
	if err != nil {
		t.Fatal(err)
	}
	return readLayout(t, text)
}

// TestImages reads a tar back the way that an engine would, and starts the program in it.
func TestImages(t *testing.T) {
	l := made(t)
	if want := []string{"docker.io/toolgate/fence:1.2.3", "docker.io/toolgate/sidecar:1.2.3"}; !slices.Equal(l.names(), want) {
		t.Fatalf("found images %v, expected %v", l.names(), want)
	}
	for name, i := range l { // names are complete, as Kubernetes makes them of those in pods
		if i.config.Config.User != "64117:64117" || !slices.Equal(i.config.Config.Entrypoint, []string{"/sidecar"}) {
			t.Errorf("%s: found %+v", name, i.config.Config)
		}
		if v := i.config.Config.Labels["org.opencontainers.image.version"]; v != "1.2.3" {
			t.Errorf("%s: found version %q", name, v)
		}
		if i.size > 15e6 {
			t.Errorf("%s: %d bytes compressed, expected at most 15 MB", name, i.size)
		}
		if got := i.files["etc/passwd"].text(); !strings.Contains(got, "toolgate:x:64117:64117:") {
			t.Errorf("%s: /etc/passwd is %q", name, got)
		}
		if d := i.files["tmp/"]; d == nil || d.header.Mode != 0o1777 {
			t.Errorf("%s: /tmp is not for everybody: %+v", name, d)
		}
		if i.files["etc/ssl/certs/ca-certificates.crt"] != nil {
			t.Errorf("%s has a file of roots, which would hide what the sidecar has built in", name)
		}
	}
	capability := "SCHILY.xattr.security.capability"
	if got := l["docker.io/toolgate/fence:1.2.3"].files["sidecar"].header.PAXRecords[capability]; got != string(netAdminFile) {
		t.Errorf("the fence's file has capability %q", got)
	}
	if got := l["docker.io/toolgate/sidecar:1.2.3"].files["sidecar"].header.PAXRecords[capability]; got != "" {
		t.Errorf("the sidecar's file has a capability: %q", got)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("NOT TESTED: the program in the image is for linux/amd64")
	}
	file := filepath.Join(t.TempDir(), "sidecar")
	if err := os.WriteFile(file, l["docker.io/toolgate/sidecar:1.2.3"].files["sidecar"].data, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(file, "version").Output(); err != nil || !strings.Contains(string(out), " 1.2.3 ") {
		t.Errorf("the program says %q, %v", out, err)
	}
}

// TestRoots: the kill switch, which has no roots built in, finds them in a file.
func TestRoots(t *testing.T) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == "killswitch" })
	for _, f := range programFiles(kinds[i], program{}) {
		if f.Path != "etc/ssl/certs/ca-certificates.crt" {
			continue
		}
		n := 0
		for block, rest := pem.Decode(f.Data); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				t.Error(err)
			}
			n++
		}
		if n < 100 {
			t.Errorf("found %d public roots", n)
		}
		return
	}
	t.Error("the image has no roots")
}

// TestSeveralPlatforms: one name for all, an index of its own.
func TestSeveralPlatforms(t *testing.T) {
	var l layout.Layout
	var images []layout.Image
	for _, arch := range []string{"amd64", "arm64"} {
		i, err := newImage(kinds[0], layout.Platform{OS: "linux", Architecture: arch}, program{[]byte(arch), []byte("{}")}, options{version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, i)
	}
	l.Add("registry.example:5000/toolgate/sidecar:1", images...)
	var text bytes.Buffer
	if err := l.Write(&text); err != nil {
		t.Fatal(err)
	}
	outer := readTar(t, &text)
	var top, inner layout.Index
	if err := json.Unmarshal(outer["index.json"].data, &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("found %+v, %v", top, err)
	}
	d := top.Manifests[0]
	if d.MediaType != layout.IndexType || d.Annotations["io.containerd.image.name"] != "registry.example:5000/toolgate/sidecar:1" || d.Annotations["org.opencontainers.image.ref.name"] != "1" {
		t.Errorf("found %+v", d)
	}
	if err := json.Unmarshal(outer["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")].data, &inner); err != nil || len(inner.Manifests) != 2 {
		t.Fatalf("found %+v, %v", inner, err)
	}
	if inner.Manifests[0].Platform.Architecture != "amd64" || inner.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("found %+v", inner)
	}
}

// TestReproducible builds in this checkout and in a copy of it elsewhere.
func TestReproducible(t *testing.T) {
	elsewhere := copyOfModule(t)
	var digests, boms []string
	for _, source := range []string{"", elsewhere} {
		c := compiler{source: source, dir: t.TempDir(), version: "1", done: map[string]program{}}
		prog, err := c.build(t.Context(), "sidecar", amd64)
		if err != nil {
			t.Fatal(err)
		}
		i, err := newImage(kinds[0], amd64, prog, options{version: "1", created: time.Unix(1e9, 0).UTC()})
		if err != nil {
			t.Fatal(err)
		}
		digests, boms = append(digests, i.Digest), append(boms, string(prog.sbom))
	}
	if digests[0] != digests[1] || boms[0] != boms[1] {
		t.Errorf("two builds of one source differ: %v", digests)
	}
}

// copyOfModule copies the module's Go files and what they embed.
func copyOfModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", module+"/cmd/sidecar").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(strings.FieldsSeq(string(out))) { // a folder before those in it
		folder := strings.TrimPrefix(path, module+"/")
		if _, err := os.Stat(filepath.Join(dir, folder)); err == nil {
			continue // with its parent
		}
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBillOfMaterials: every module that the linker recorded is in it, by name, version and checksum.
func TestBillOfMaterials(t *testing.T) {
	i := made(t)["docker.io/toolgate/sidecar:1.2.3"]
	var b bom
	if err := json.Unmarshal(i.files["sbom.json"].data, &b); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(i.files["sidecar"].data))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Components) != len(info.Deps)+1 || len(info.Deps) < 10 {
		t.Errorf("found %d components for %d modules and the standard library", len(b.Components), len(info.Deps))
	}
	for _, m := range info.Deps {
		found := slices.ContainsFunc(b.Components, func(c component) bool {
			return c.Name == m.Path && c.Version == m.Version && slices.Contains(c.Properties, property{"go:sum", m.Sum})
		})
		if !found {
			t.Errorf("%s %s is not in it", m.Path, m.Version)
		}
	}
	refs := map[string]bool{}
	for _, c := range b.Components {
		if refs[c.Ref] || c.PURL == "" {
			t.Errorf("%s: found reference %q twice or no purl", c.Name, c.Ref)
		}
		refs[c.Ref] = true
	}
	if got := b.Metadata.Component; got.Version != "1.2.3" || got.Hashes[0].Content != strings.TrimPrefix(digest(i.files["sidecar"].data), "sha256:") {
		t.Errorf("it is about %+v", got)
	}
}

func TestReplacedModules(t *testing.T) {
	text, err := billOfMaterials("x", "1", nil, &buildinfo.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{
		{Path: "example.com/Old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/New", Version: "v2.0.0", Sum: "h1:x"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); strings.Contains(s, "Old") || !strings.Contains(s, `"pkg:golang/example.com/new@v2.0.0"`) {
		t.Errorf("found %s", s)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "x"}, "no image named"},
		{[]string{"-o", "x", "side"}, `found "side"`},
		{[]string{"sidecar"}, "nothing to write"},
		{[]string{"-o", "x", "-platform", "windows/amd64", "sidecar"}, "expected linux/amd64"},
		{[]string{"-o", "x", "-version", "1 -X main.y=2", "sidecar"}, "an image's tag"},
		{[]string{"-sbom", "x", "-platform", "linux/amd64,linux/arm64", "sidecar"}, "one platform"},
	} {
		if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: found %v, expected %q", c.args, err, c.want)
		}
	}
	if _, err := created("yesterday"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday was accepted")
	}
}
