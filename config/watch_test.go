package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watching runs Watch on entries and returns a channel that has one value for each call of changed. It returns when the
// watcher is at work.
func watching(t *testing.T, entries ...string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	calls, looked, done := make(chan struct{}, 100), make(chan struct{}, 100), make(chan error, 1)
	files := func() []string {
		select {
		case looked <- struct{}{}:
		default:
		}
		return entries
	}
	go func() { done <- Watch(ctx, slog.New(slog.DiscardHandler), files, func() { calls <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	<-looked
	ready(t, entries[0], calls)
	return calls
}

// ready waits until a change is seen, which proves that the first look is over, and takes it back. What is changed is a
// file's time only.
func ready(t *testing.T, file string, calls <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for i := range 300 {
		if err := os.Chtimes(file, time.Time{}, time.Unix(int64(1_000_000+i), 0)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-calls:
			drain(calls)
			return
		case <-tick.C:
		}
	}
	t.Fatal("the watcher never began")
}

// drain waits until the watcher has been quiet for much longer than it waits itself.
func drain(calls <-chan struct{}) {
	for {
		select {
		case <-calls:
		case <-time.After(5 * watchQuiet):
			return
		}
	}
}

func sees(t *testing.T, calls <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-calls:
	case <-time.After(watchRecheck / 2): // an event, not the regular look
		t.Fatalf("not seen: %s", what)
	}
	drain(calls)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchConfigMap swaps the ..data symlink as the kubelet does: a new folder, a new link renamed over the old one, the
// old folder removed.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "..0", "sidecar.yaml"), "0")
	do(t, os.Symlink("..0", filepath.Join(dir, "..data")))
	do(t, os.Symlink("..data/sidecar.yaml", filepath.Join(dir, "sidecar.yaml")))
	calls := watching(t, filepath.Join(dir, "sidecar.yaml"))
	for i := 1; i <= 20; i++ {
		folder := fmt.Sprintf("..%d", i)
		put(t, filepath.Join(dir, folder, "sidecar.yaml"), "the same text") // every other thing may be the same
		do(t, os.Symlink(folder, filepath.Join(dir, "..data_tmp")))
		do(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		do(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i-1))))
		sees(t, calls, fmt.Sprintf("swap %d", i))
	}
}

func TestWatchFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder", "sidecar.yaml")
	put(t, path, "0")
	calls := watching(t, path)

	put(t, path, "written in place")
	sees(t, calls, "a write")

	for i := range 3 { // an editor's way, more than once: the watch must not stay on the old file
		put(t, path+".tmp", fmt.Sprint("renamed ", i))
		do(t, os.Rename(path+".tmp", path))
		sees(t, calls, "a rename over")
	}

	do(t, os.Remove(path))
	sees(t, calls, "a removal")
	put(t, path, "made again")
	sees(t, calls, "a file made again")

	do(t, os.RemoveAll(filepath.Dir(path)))
	sees(t, calls, "a removed folder")
	put(t, path, "folder made again")
	sees(t, calls, "a folder made again")
	put(t, path, "in the new folder")
	sees(t, calls, "a write in the new folder")

	other := filepath.Join(dir, "other")
	put(t, filepath.Join(other, "sidecar.yaml"), "of another folder")
	do(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "old")))
	do(t, os.Rename(other, filepath.Dir(path)))
	sees(t, calls, "a replaced folder")
	put(t, path, "in the replaced folder")
	sees(t, calls, "a write in the replaced folder")
}

func TestWatchGlob(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "sidecar.yaml")
	put(t, config, "0")
	put(t, filepath.Join(dir, "manifests", "a.yaml"), "a")
	calls := watching(t, config, filepath.Join(dir, "manifests", "*.yaml"))

	put(t, filepath.Join(dir, "manifests", "b.yaml"), "b")
	sees(t, calls, "a new manifest")
	put(t, filepath.Join(dir, "manifests", "b.yaml"), "changed")
	sees(t, calls, "a changed manifest")
	do(t, os.Remove(filepath.Join(dir, "manifests", "a.yaml")))
	sees(t, calls, "a removed manifest")

	put(t, filepath.Join(dir, "manifests", "note.txt"), "no manifest")
	put(t, filepath.Join(dir, "sidecar.yaml.swp"), "no config")
	select {
	case <-calls:
		t.Error("a call for files that nobody asked about")
	case <-time.After(10 * watchQuiet):
	}
}

// TestWatchGathers: a burst of writes is one change, or nearly so.
func TestWatchGathers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "0")
	calls := watching(t, path)
	for i := range 200 {
		put(t, path, fmt.Sprint(i))
	}
	sees(t, calls, "a burst")
	if n := len(calls); n > 0 {
		t.Errorf("%d calls after it was quiet", n)
	}
}

// TestWatchWithoutEvents: the comparison alone finds what no event told of.
func TestWatchWithoutEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "0")
	n := 0
	w := &watcher{log: slog.New(slog.DiscardHandler), files: func() []string { return []string{path} }, changed: func() { n++ }}
	w.look()
	w.seen = w.state()
	w.check()
	equal(t, "nothing changed", n, 0)
	put(t, path, "1")
	w.check()
	equal(t, "changed once", n, 1)
	do(t, os.Remove(path))
	w.check()
	equal(t, "removed", n, 2)
}

// TestWatchFilesAreAskedAgain: after a change the list may name other files.
func TestWatchFilesAreAskedAgain(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "elsewhere", "second")
	put(t, first, "0")
	put(t, second, "0")
	list := []string{first}
	n := 0
	w := &watcher{log: slog.New(slog.DiscardHandler), files: func() []string { return list }}
	w.changed = func() { n++; list = []string{first, second} }
	w.look()
	w.seen = w.state()
	put(t, first, "1")
	w.check()
	before := n
	put(t, second, "1")
	w.check()
	equal(t, "the second file is watched", n, before+1)
}
