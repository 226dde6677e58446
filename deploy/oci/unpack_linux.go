package main

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// unpack writes files below dir. It needs root if a file has another owner or a capability, as a container's build has.
func unpack(dir string, files []file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.path)
		if strings.HasSuffix(f.path, "/") {
			if err := os.MkdirAll(name, 0o755); err != nil {
				return err
			}
		} else if err := os.WriteFile(name, f.data, 0o644); err != nil {
			return err
		}
		if f.owner != 0 {
			if err := os.Chown(name, f.owner, f.owner); err != nil {
				return err
			}
		}
		if err := unix.Chmod(name, uint32(f.mode)); err != nil {
			return &os.PathError{Op: "chmod", Path: name, Err: err}
		}
		if f.netAdmin {
			if err := unix.Setxattr(name, "security.capability", netAdminFile, 0); err != nil {
				return &os.PathError{Op: "setxattr", Path: name, Err: err}
			}
		}
	}
	return nil
}
