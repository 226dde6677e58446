package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// sealMemory makes the process one that is not dumpable (PR_SET_DUMPABLE(2const)): the kernel writes no core of it, neither to a file nor
// to a helper, and lets nobody without CAP_SYS_PTRACE trace it or read its memory, environment, maps or descriptors under /proc, its own
// user neither. RLIMIT_CORE alone would not do: it does not hold for a helper. What is under /proc/self is root's from then on; what
// this process needs of it, it may read as before.
func sealMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w; expected a seccomp profile that lets a process close its memory to others", err)
	}
	return nil
}
