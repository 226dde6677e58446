//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cpuTime returns the time that a process's threads have spent on a CPU, from /proc/PID/task/*/schedstat: nanoseconds,
// user and system together. Threads that have ended are not counted; Go keeps its threads.
func cpuTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no schedstat of process %d: %w", pid, os.ErrNotExist)
	}
	var sum time.Duration
	for _, name := range files {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		first, _, _ := bytes.Cut(text, []byte(" "))
		n, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// residentBytes returns VmRSS of a process.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// openFiles returns the number of file descriptors that a process holds.
func openFiles(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}
