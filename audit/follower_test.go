package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func follow(t *testing.T, path string) *Follower {
	t.Helper()
	f, err := Follow(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// take reads what there is, so many lines at a time, and is done with it.
func take(t *testing.T, f *Follower, n int) (all []string) {
	t.Helper()
	for {
		lines, err := f.Lines(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) == 0 {
			return all
		}
		for _, l := range lines {
			all = append(all, string(l))
		}
		if err := f.Done(len(lines), "c"); err != nil {
			t.Fatal(err)
		}
	}
}

func numberedLines(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("line %04d", i))
	}
	return all
}

func put(t *testing.T, f *File, from, to int) {
	t.Helper()
	for _, l := range numberedLines(from, to) {
		if _, err := f.Write([]byte(l + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d lines %.200q, want %d", what, len(got), got, len(want))
	}
}

// TestFollower: every line is had once, in its order, whatever is renamed between two looks, and by another process from where the one
// before was done.
func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	early := follow(t, path) // before there is a file
	if got := take(t, early, 10); got != nil {
		t.Errorf("of no file: %q", got)
	}
	w, _, err := OpenFile(path, 100, 1000) // ten lines each
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, 0, 5)
	sameLines(t, "first", take(t, early, 2), numberedLines(0, 5))
	put(t, w, 5, 47) // over four renamed files
	if _, err := early.Lines(3, 0); err != nil {
		t.Fatal(err)
	}
	if err := early.Done(3, "c"); err != nil {
		t.Fatal(err)
	}
	next := follow(t, path)
	if n, err := next.Waiting(); err != nil || n != 39 || next.Chain() != "c" {
		t.Errorf("waiting for another process: %d %v, chain %q", n, err, next.Chain())
	}
	sameLines(t, "another process", take(t, next, 7), numberedLines(8, 47))
	put(t, w, 47, 48)
	sameLines(t, "one more", take(t, next, 7), numberedLines(47, 48))
	sameLines(t, "nothing more", take(t, follow(t, path), 7), nil)
	if err := os.Remove(filepath.Join(filepath.Dir(path), ".records.jsonl.shipped")); err != nil {
		t.Fatal(err)
	}
	sameLines(t, "without its memory", take(t, follow(t, path), 7), numberedLines(0, 48))
}

// TestFollowerEveryTurn looks after each single line, so that each way of meeting a renamed file is met.
func TestFollowerEveryTurn(t *testing.T) {
	for gap := 1; gap <= 21; gap++ {
		path := filepath.Join(t.TempDir(), "records.jsonl")
		w, _, err := OpenFile(path, 50, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		f := follow(t, path)
		for i := 0; i < 63; i += gap {
			put(t, w, i, min(63, i+gap))
			if i%2 == 0 {
				got = append(got, take(t, f, 3)...)
			} else {
				got = append(got, take(t, follow(t, path), 1+gap)...) // a process of its own
				f = follow(t, path)
			}
		}
		sameLines(t, fmt.Sprintf("by %d", gap), append(got, take(t, f, 100)...), numberedLines(0, 63))
	}
}

// TestFollowerLosesNoMoreThanIsGone: files that were deleted unread are skipped, and nothing else.
func TestFollowerLosesNoMoreThanIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	w, _, err := OpenFile(path, 50, 2)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, 0, 3)
	f := follow(t, path)
	sameLines(t, "before", take(t, f, 2), numberedLines(0, 3))
	put(t, w, 3, 38) // the first of them is in a file that is still open here
	sameLines(t, "after", take(t, f, 2), append(numberedLines(3, 5), numberedLines(25, 38)...))
	put(t, w, 38, 80)
	sameLines(t, "another process", take(t, follow(t, path), 2), numberedLines(65, 80))
}

// TestFollowerMoved: whoever moves the file away, as logrotate does, loses nothing.
func TestFollowerMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	w, _, err := OpenFile(path, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, 0, 3)
	f := follow(t, path)
	sameLines(t, "one", take(t, f, 1), numberedLines(0, 3))
	put(t, w, 3, 5)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	sameLines(t, "the rest of the moved one", take(t, f, 9), numberedLines(3, 5))
	put(t, w, 5, 9)
	sameLines(t, "the next", take(t, f, 9), numberedLines(5, 9))
}

// TestFollowerOddLines: half a line is not had until it is ended, an empty one never, one that no record is as long as is passed over.
func TestFollowerOddLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	appendText := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	appendText("\n\nwhole\nhal")
	f := follow(t, path)
	sameLines(t, "whole", take(t, f, 9), []string{"whole"})
	appendText("f\n\n" + strings.Repeat("x", 3*maxLine))
	sameLines(t, "half", take(t, f, 9), []string{"half"})
	appendText("\nafter\n")
	sameLines(t, "after", take(t, follow(t, path), 9), []string{"after"})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	appendText("anew\n")
	sameLines(t, "truncated", take(t, f, 9), []string{"anew"})
	for _, state := range []string{"", "{", `{"end":5,"size":99999999,"sha256":""}`, `{"end":3,"size":-1}`, `{"end":3,"size":3}`, "null"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".records.jsonl.shipped"), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		sameLines(t, state, take(t, follow(t, path), 9), []string{"anew"})
	}
}

// TestFollowerBatch: a batch ends at its bytes, and what was not done with comes again.
func TestFollowerBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	line := bytes.Repeat([]byte("y"), maxLine/3)
	if err := os.WriteFile(path, bytes.Repeat(append(line, '\n'), 5), 0o600); err != nil {
		t.Fatal(err)
	}
	f := follow(t, path)
	for _, want := range []int{2, 2, 1} {
		for range 2 {
			lines, err := f.Lines(100, 0)
			if err != nil || len(lines) != want {
				t.Fatalf("%d lines, want %d: %v", len(lines), want, err)
			}
		}
		if err := f.Done(want, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollowerIgnoresPlantedLinks: whoever may write the folder cannot have the state written over another file.
func TestFollowerIgnoresPlantedLinks(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "records.jsonl"), filepath.Join(t.TempDir(), "other")
	for name, text := range map[string]string{path: "one\ntwo\n", other: "kept"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".records.jsonl.shipped", ".records.jsonl.shipped.new"} {
		if err := os.Symlink(other, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sameLines(t, "the lines", take(t, follow(t, path), 9), []string{"one", "two"})
	if b, err := os.ReadFile(other); err != nil || string(b) != "kept" {
		t.Errorf("the other file has %q, %v", b, err)
	}
	sameLines(t, "what is remembered", take(t, follow(t, path), 9), nil)
}

// TestFollowerLeavesNoFiles: beside the records there is what is remembered and no more, and only its owner may read it.
func TestFollowerLeavesNoFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, follow(t, path), 1)
	all, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(all) != 1 || filepath.Base(all[0]) != ".records.jsonl.shipped" {
		t.Fatalf("%v %v", all, err)
	}
	if st, err := os.Stat(all[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
}
