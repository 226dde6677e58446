// Command oci makes container images of Toolgate's programs, without a container engine: an OCI image layout in a tar, which
// containerd, skopeo, podman and docker (25 and later) read. With -rootfs it writes the images' root file systems instead, for
// deploy/docker.
//
//	go run ./deploy/oci -o images.tar -version 1.2.3 sidecar killswitch fence
//	ctr -n k8s.io images import images.tar
//
// The same source, Go release and version give the same digests on any machine. SOURCE_DATE_EPOCH is the images' date.
//
// Limits: Linux only, on amd64 and arm64; the binaries are static. It pushes to no registry and signs nothing.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "oci:", err)
		}
		os.Exit(1)
	}
}

// options are what the command line asks for.
type options struct {
	out, rootfs, sbom string // files and folders to write, empty if not wanted
	prefix, version   string // of the images' names
	platforms         []layout.Platform
	kinds             []kind
	created           time.Time
}

// tag is what a tag may be (OCI distribution specification 1.1). It goes into a linker flag as well, so no spaces.
var tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var platforms string
	flags := flag.NewFlagSet("oci", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "o", "", "write the images to this tar `file`, an OCI image layout")
	flags.StringVar(&o.rootfs, "rootfs", "", "write each image's root file system to a folder in this `folder`")
	flags.StringVar(&o.sbom, "sbom", "", "write each program's bill of materials to this `folder`")
	flags.StringVar(&o.prefix, "prefix", "toolgate", "what the images' names begin with, such as registry.example/toolgate")
	flags.StringVar(&o.version, "version", "devel", "the release: the images' tag, and what the programs call themselves")
	flags.StringVar(&platforms, "platform", "linux/amd64", "for which `platforms`, with commas between")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.kinds, err = kindsOf(flags.Args()); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(platforms, ",") {
		p, err := parsePlatform(name)
		if err != nil {
			return o, err
		}
		o.platforms = append(o.platforms, p)
	}
	switch {
	case !tag.MatchString(o.version):
		return o, fmt.Errorf("-version: found %q, expected what an image's tag may be", o.version)
	case o.out == "" && o.rootfs == "" && o.sbom == "":
		return o, errors.New("nothing to write: expected -o, -rootfs or -sbom")
	case len(o.platforms) > 1 && (o.rootfs != "" || o.sbom != ""):
		return o, errors.New("-rootfs and -sbom are for one platform at a time")
	}
	o.created, err = created(os.Getenv("SOURCE_DATE_EPOCH"))
	return o, err
}

// created reads SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/). Without it the date is 1970: a clock
// would give each build another digest.
func created(epoch string) (time.Time, error) {
	seconds, err := strconv.ParseInt(cmp.Or(epoch, "0"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: found %q, expected seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "toolgate-oci-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	programs := compiler{dir: bin, version: o.version, done: map[string]program{}}
	var l layout.Layout
	for _, k := range o.kinds {
		var images []layout.Image
		for _, p := range o.platforms {
			prog, err := programs.build(ctx, k.program, p)
			if err != nil {
				return err
			}
			if err := o.unpacked(k, prog); err != nil {
				return err
			}
			if o.out == "" {
				continue
			}
			i, err := newImage(k, p, prog, o)
			if err != nil {
				return err
			}
			images = append(images, i)
		}
		if o.out != "" {
			name := o.prefix + "/" + k.name + ":" + o.version
			l.Add(name, images...)
			for _, i := range images {
				fmt.Fprintf(stdout, "%s %s %s %.1f MB compressed\n", name, i.Platform, i.Digest, float64(i.Size)/1e6)
			}
		}
	}
	if o.out == "" {
		return nil
	}
	return writeFile(o.out, l.Write)
}

// unpacked writes what is wanted of an image besides the tar.
func (o options) unpacked(k kind, prog program) error {
	if o.sbom != "" {
		if err := os.MkdirAll(o.sbom, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.sbom, k.program+".cdx.json"), prog.sbom, 0o644); err != nil {
			return err
		}
	}
	if o.rootfs == "" {
		return nil
	}
	return unpack(filepath.Join(o.rootfs, k.name), append(baseFiles(), programFiles(k, prog)...))
}

// writeFile writes to a neighbour and renames it: a reader never sees half a tar.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".oci-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
