package audit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is the environment variable that makes this test binary a process whose files cannot grow.
const fullDisk = "TOOLGATE_TEST_FULL_DISK"

// TestFullDisk: while the disk is full, whoever waits is told, others are kept, and all is written once there is room: the same line
// goes on where it stopped.
func TestFullDisk(t *testing.T) {
	if path := os.Getenv(fullDisk); path != "" {
		writeToFullDisk(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "records.jsonl")
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := verifyFiles(t, glob(t, path)...); len(r.Findings)+len(r.Notes) > 0 || r.Records < 20 || r.Lost > 0 {
		t.Errorf("%+v", r)
	}
	for _, name := range glob(t, path) {
		if b, err := os.ReadFile(name); err != nil || len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("%s: %v, or it ends within a line", name, err)
		}
	}
}

func writeToFullDisk(t *testing.T, path string) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(2000)
	l, f := opened(t, path, 0, 1)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = l.Save(context.Background(), Record{Kind: "request", Tool: strings.Repeat("t", 100)})
	}
	var sink *SinkError
	if !errors.As(err, &sink) || l.Ready() == nil {
		t.Fatalf("Save: %v, Ready: %v", err, l.Ready())
	}
	for range 20 {
		l.Write(Record{Kind: "request"})
	}
	if err := os.Rename(path, path+".1"); err != nil { // the rest of the line belongs to this file all the same
		t.Fatal(err)
	}
	limit(was.Cur)
	ended(t, l, f)
}
