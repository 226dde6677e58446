//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// partLoad says how much of the machine other work had while a part was measured.
type partLoad struct {
	what   string
	others float64 // of all cores, 0 to 1
}

// machineLoad is the CPU time that was spent until a moment.
type machineLoad struct {
	at        time.Time
	all, ours time.Duration
}

// userHZ is the unit of /proc/stat on every Linux that Go runs on (proc_stat(5), sysconf(_SC_CLK_TCK)).
const userHZ = 100

func readLoad() (m machineLoad, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 {
		return m, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return m, err
		}
		m.all += time.Duration(ticks) * time.Second / userHZ
	}
	var ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
		return m, err
	}
	m.ours, err = cpuTime(os.Getpid())
	m.ours += time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	m.at = time.Now()
	return m, err
}

// others returns the share of all cores that was spent between m and a later moment, and not by this program and its children.
func (m machineLoad) others(later machineLoad) float64 {
	spent := (later.all - m.all) - (later.ours - m.ours)
	return max(0, spent.Seconds()/later.at.Sub(m.at).Seconds()/float64(runtime.NumCPU()))
}
