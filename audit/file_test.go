package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// opened is a Log on a file, whose chain goes on where the one before ended.
func opened(t *testing.T, path string, maxBytes int64, keep int) (*Log, *File) {
	t.Helper()
	f, head, err := OpenFile(path, maxBytes, keep)
	if err != nil {
		t.Fatal(err)
	}
	return New(f, Options{Chain: true, Process: &Process{Version: "v0", Previous: head, Key: testKey(1), Every: 10}}), f
}

func ended(t *testing.T, l *Log, f *File) {
	t.Helper()
	if err := errors.Join(l.Close(time.Minute), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func saved(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		if err := l.Save(context.Background(), Record{ID: fmt.Sprint(i), Kind: "request", Tool: strings.Repeat("t", 100)}); err != nil {
			t.Fatal(err)
		}
	}
}

func verifyFiles(t *testing.T, names ...string) Report {
	t.Helper()
	v := &Verifier{Key: public(testKey(1))}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Read(filepath.Base(name), bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report(true)
}

func glob(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	return InOrder(names)
}

// TestRotation: no file grows beyond its bound, the oldest go, the chain holds across files and restarts, and a pattern's names sort.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	for range 2 {
		l, f := opened(t, path, 2000, 100)
		saved(t, l, 60)
		ended(t, l, f)
	}
	names := glob(t, path)
	if len(names) < 12 || names[0] != path+".000001" || names[len(names)-1] != path {
		t.Fatalf("%q", names)
	}
	for _, name := range names {
		if st, err := os.Stat(name); err != nil || st.Size() > 2000 || st.Size() == 0 {
			t.Errorf("%s: %v, %v", name, st.Size(), err)
		}
	}
	if r := verifyFiles(t, names...); len(r.Findings)+len(r.Notes) > 0 || r.Records != 120 || r.Chains != 2 {
		t.Errorf("%+v", r)
	}
	if r := verifyFiles(t, slices.Delete(slices.Clone(names), 3, 4)...); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, "are missing") {
		t.Errorf("without the fourth: %+v", r)
	}
	l, f := opened(t, path, 2000, 3)
	saved(t, l, 20)
	ended(t, l, f)
	if left := glob(t, path); len(left) != 4 || !slices.Contains(left, path) || slices.Contains(left, path+".000001") {
		t.Errorf("left: %q", left)
	}
	if r := verifyFiles(t, glob(t, path)...); len(r.Findings) > 0 || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestRestartAfterRotation: a file that was renamed just before the end is where the next chain says that it goes on.
func TestRestartAfterRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	l, f := opened(t, path, 0, 1)
	saved(t, l, 2)
	ended(t, l, f)
	if err := os.Rename(path, path+".000001"); err != nil {
		t.Fatal(err)
	}
	l, f = opened(t, path, 0, 1)
	saved(t, l, 2)
	ended(t, l, f)
	if r := verifyFiles(t, path); len(r.Notes) != 1 || !strings.Contains(r.Notes[0].What, "of 4 lines, is not in these files") {
		t.Errorf("%+v", r)
	}
	if r := verifyFiles(t, path+".000001", path); len(r.Findings)+len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestMovedAway: logrotate renames the file, or somebody deletes it. What is written then goes to a new one of that name.
func TestMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	l, f := opened(t, path, 0, 1)
	saved(t, l, 3)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	saved(t, l, 3)
	ended(t, l, f)
	names := glob(t, path)
	if !slices.Equal(names, []string{path + ".1", path}) {
		t.Fatalf("%q", names)
	}
	if r := verifyFiles(t, names...); len(r.Findings)+len(r.Notes) > 0 || r.Records != 6 {
		t.Errorf("%+v", r)
	}
}

// TestCutLine: a process that ended while it wrote leaves half a line, which stays, is found, and is not joined to another.
func TestCutLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	l, f := opened(t, path, 0, 1)
	saved(t, l, 3)
	ended(t, l, f)
	st, err := os.Stat(path)
	if err != nil || os.Truncate(path, st.Size()-20) != nil {
		t.Fatal(err)
	}
	l, f = opened(t, path, 0, 1)
	saved(t, l, 1)
	ended(t, l, f)
	r := verifyFiles(t, path)
	if len(r.Findings) != 1 || r.Findings[0].Line != 5 || !strings.Contains(r.Findings[0].What, "no JSON") || r.Records != 4 {
		t.Errorf("%+v", r)
	}
}

func TestInOrder(t *testing.T) {
	got := InOrder([]string{"b", "r", "r.000002", "r.000010", "r.000009", "a.1", "a.10", "a.2", "a", "d-20261130", "d-20261129", "d", "x.jsonl", "w.jsonl"})
	want := []string{"b", "r.000002", "r.000009", "r.000010", "r", "a.10", "a.2", "a.1", "a", "d-20261129", "d-20261130", "d", "x.jsonl", "w.jsonl"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
