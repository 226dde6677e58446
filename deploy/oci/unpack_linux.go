package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// unpack writes files below dir. It needs root if a file has another owner or a capability, as a container's build has.
func unpack(dir string, files []layout.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Path)
		if f.Dir() {
			if err := os.MkdirAll(name, 0o755); err != nil {
				return err
			}
		} else if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			return err
		}
		if f.Owner != 0 {
			if err := os.Chown(name, f.Owner, f.Owner); err != nil {
				return err
			}
		}
		if err := unix.Chmod(name, uint32(f.Mode)); err != nil {
			return &os.PathError{Op: "chmod", Path: name, Err: err}
		}
		if f.Capability != nil {
			if err := unix.Setxattr(name, "security.capability", f.Capability, 0); err != nil {
				return &os.PathError{Op: "setxattr", Path: name, Err: err}
			}
		}
	}
	return nil
}
