//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock is a process's CPU clock as clock_gettime(2) numbers it (CPUCLOCK_SCHED in the kernel's posix-timers.h): nanoseconds,
// user and system together, of all threads, those that have ended as well.
const cpuClock = 2

// cpuTime returns the time that a process and its descendants have spent on a CPU.
func cpuTime(pid int) (time.Duration, error) {
	pids, err := tree(pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|cpuClock), &t); err != nil {
			return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
		}
		sum += time.Duration(t.Nano())
	}
	return sum, nil
}

// tree returns a process and its descendants.
func tree(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		// The second field is the program's name in parentheses, which may hold anything.
		head, rest, _ := bytes.Cut(text, []byte(" ("))
		fields := bytes.Fields(rest[bytes.LastIndexByte(rest, ')')+1:])
		child, _ := strconv.Atoi(string(head))
		parent, _ := strconv.Atoi(string(fields[1]))
		children[parent] = append(children[parent], child)
	}
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		pids = slices.Concat(pids, children[pids[i]])
	}
	return pids, nil
}

// residentBytes returns VmRSS of a process and its descendants. Pages that they share count for each.
func residentBytes(pid int) (int64, error) {
	return overTree(pid, func(pid int) (int64, error) {
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
	})
}

// openFiles returns the number of file descriptors that a process and its descendants hold.
func openFiles(pid int) (int64, error) {
	return overTree(pid, func(pid int) (int64, error) {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		return int64(len(entries)), err
	})
}

func overTree(pid int, of func(int) (int64, error)) (sum int64, err error) {
	pids, err := tree(pid)
	for _, pid := range pids {
		n, err := of(pid)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, err
}
