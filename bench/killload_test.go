//go:build linux

package main

import (
	"runtime"
	"testing"
	"time"
)

func TestOthers(t *testing.T) {
	cores := time.Duration(runtime.NumCPU())
	before := machineLoad{at: time.Now(), all: time.Hour, ours: time.Minute}
	after := machineLoad{at: before.at.Add(10 * time.Second), all: time.Hour + 6*cores*time.Second, ours: time.Minute + cores*time.Second}
	if got := before.others(after); got < 0.499 || got > 0.501 {
		t.Errorf("%v of the machine, want a half", got)
	}
	if _, err := readLoad(); err != nil {
		t.Error(err)
	}
}
