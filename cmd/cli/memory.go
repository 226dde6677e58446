package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// MemoryVariable is the environment variable with the limit of the container's memory, in bytes. Kubernetes can fill it in, by
// resourceFieldRef, and can compute nothing.
const MemoryVariable = "TOOLGATE_MEMORY_LIMIT"

// limitMemory has Go's collector keep the process below nine tenths of MemoryVariable. The rest is for what it does not count: the
// binary itself, the kernel's buffers, and what is allocated while it collects. GOMEMLIMIT wins. Without either there is no limit.
func limitMemory() error {
	text := os.Getenv(MemoryVariable)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("found %s %.40q, expected a number of bytes", MemoryVariable, text)
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}
