package cli

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSealed: no program runs a command while others may read its memory. e2e/hunt shows what that keeps from whom.
func TestSealed(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	program(nil, "do")
	if state, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); state != 0 || err != nil {
		t.Errorf("dumpable is %d, %v", state, err)
	}
}
