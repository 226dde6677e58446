package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnpack: a root file system on disk has the owners, the modes and the capability of the layer.
func TestUnpack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: owners and capabilities of files need root")
	}
	dir := t.TempDir()
	for _, k := range kinds[:2] {
		to := filepath.Join(dir, k.name)
		if err := unpack(to, append(baseFiles(), programFiles(k, program{[]byte("binary"), []byte("{}")})...)); err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Stat(filepath.Join(to, "var/lib/toolgate"), &s); err != nil || s.Uid != uid || s.Mode&0o7777 != 0o700 {
			t.Errorf("%s: /var/lib/toolgate: %+v, %v", k.name, s, err)
		}
		if err := unix.Stat(filepath.Join(to, "tmp"), &s); err != nil || s.Mode&0o7777 != 0o1777 {
			t.Errorf("%s: /tmp: %o, %v", k.name, s.Mode, err)
		}
		value := make([]byte, 64)
		n, err := unix.Getxattr(filepath.Join(to, "sidecar"), "security.capability", value)
		switch {
		case k.capability != nil && (err != nil || string(value[:n]) != string(netAdminFile)):
			t.Errorf("%s: found capability %x, %v", k.name, value[:max(n, 0)], err)
		case k.capability == nil && err != unix.ENODATA:
			t.Errorf("%s: found capability %x, %v", k.name, value[:max(n, 0)], err)
		}
	}
}
