package config

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of a watcher. Events can be lost (a full queue, a folder replaced whole), so everything is looked at now and
// then; without events at all it is looked at often enough for a revocation to be seen within a second.
const (
	watchQuiet    = 20 * time.Millisecond
	watchMaxQuiet = time.Second
	watchRecheck  = 10 * time.Second
	watchPoll     = 500 * time.Millisecond
)

// Watch calls changed, from one goroutine, whenever one of the files (or the target of a symlink on its way, as in a
// mounted ConfigMap) has changed, was replaced, removed or made, after things have been quiet for a moment (20 ms). It
// returns when ctx ends. files is asked again after each change. Glob patterns are watched by their folder.
//
// A change before Watch has first looked is not seen; whoever loads before calling Watch should load once more after
// it, or accept what the next change brings.
func Watch(ctx context.Context, log *slog.Logger, files func() []string, changed func()) error {
	w := &watcher{log: log, files: files, changed: changed}
	events, errs, stop := w.notify()
	defer stop()
	w.look()
	w.seen = w.state()
	w.loop(ctx, events, errs)
	return nil
}

// watcher compares the state of a set of files; events only say when.
type watcher struct {
	log     *slog.Logger
	files   func() []string
	changed func()
	notes   *fsnotify.Watcher // nil: polling only
	folders map[string]bool   // watched
	paths   map[string]bool   // whose events matter
	globs   []string
	seen    map[string]fileState
}

// notify begins to listen for events. Where the system gives none (its limit of inotify instances is often low),
// polling does.
func (w *watcher) notify() (chan fsnotify.Event, chan error, func()) {
	notes, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("file events are not available, polling instead", "interval", watchPoll, "error", err)
		return nil, nil, func() {}
	}
	w.notes, w.folders = notes, map[string]bool{}
	return notes.Events, notes.Errors, func() { _ = notes.Close() }
}

func (w *watcher) loop(ctx context.Context, events chan fsnotify.Event, errs chan error) {
	interval := watchRecheck
	if w.notes == nil {
		interval = watchPoll
	}
	recheck := time.NewTicker(interval)
	defer recheck.Stop()
	quiet := time.NewTimer(0)
	<-quiet.C
	var since time.Time // of the first event not yet acted upon
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if !w.matters(e.Name) {
				continue
			}
			if e.Has(fsnotify.Create) && w.folders[e.Name] { // a watched folder was replaced; the watch is on the old one
				_ = w.notes.Remove(e.Name)
			}
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) < watchMaxQuiet { // steady events must not put it off for ever
				quiet.Reset(watchQuiet)
			}
			continue
		case err := <-errs:
			w.log.Warn("file events were lost, looking at every file", "error", err)
		case <-quiet.C:
		case <-recheck.C:
		}
		since = time.Time{}
		w.check()
	}
}

// check calls changed if something differs from what was seen last, and looks again as long as it does: what changed
// while changed ran, or before a new folder was watched, sends no event.
func (w *watcher) check() {
	w.look()
	for range 3 {
		now := w.state()
		if maps.Equal(now, w.seen) {
			return
		}
		w.seen = now
		w.changed()
		w.look()
	}
}

// look brings the watched folders up to date.
func (w *watcher) look() {
	w.globs = nil
	for _, f := range w.files() {
		if abs, err := filepath.Abs(f); err == nil {
			w.globs = append(w.globs, abs)
		}
	}
	w.paths = map[string]bool{}
	for _, f := range w.globs {
		for _, file := range append(expand(f), f) {
			trail(file, w.paths)
		}
	}
	if w.notes == nil {
		return
	}
	want := map[string]bool{}
	for p := range w.paths {
		want[filepath.Dir(p)] = true
	}
	for d := range w.folders {
		if !want[d] {
			_ = w.notes.Remove(d) // gone with its folder, or not of interest any more
		}
	}
	listed := w.notes.WatchList()
	w.folders = map[string]bool{}
	for _, d := range slices.Sorted(maps.Keys(want)) {
		if !slices.Contains(listed, d) && w.notes.Add(d) != nil {
			continue // not there; its parent is watched as well
		}
		w.folders[d] = true
	}
}
