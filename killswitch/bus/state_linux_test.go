package bus_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
)

// A disk that is full: the old file stays whole, and the new revocation rules in memory.
func TestStateOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	c := bustest.Start(t, 50*time.Millisecond)
	c.Revoke("r1", tool("a"))
	s := begin(t, c, time.Minute, inDir(dir))
	eventually(t, "saved", func() bool { _, err := bus.LoadState(dir, c.Keys()); return err == nil })
	_ = os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 60<<10), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "ballast2"), make([]byte, 60<<10), 0o600) // takes what is left, and fails
	c.Revoke("r2", tool("b"))
	eventually(t, "revoked", func() bool { return s.revoked("b") })
	eventually(t, "counted", func() bool { return s.count("state_write error") > 0 })
	if state, err := bus.LoadState(dir, c.Keys()); err != nil || state.Revision != 1 {
		t.Errorf("the file of before: %v", err)
	}
	for _, name := range []string{"ballast", "ballast2"} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	eventually(t, "saved after all", func() bool { state, err := bus.LoadState(dir, c.Keys()); return err == nil && state.Revision == 2 })
}
