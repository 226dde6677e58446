package config

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxLinks bounds the symlinks on the way to one file, as the kernel does.
const maxLinks = 40

// fileState tells two states of a file apart. A symlink swap that leads to the same contents is a change as well.
type fileState struct {
	real string // where its symlinks lead
	size int64
	time time.Time
	sum  [sha256.Size]byte // of at most maxFileBytes
}

// state returns the state of every file there is.
func (w *watcher) state() map[string]fileState {
	out := map[string]fileState{}
	for _, f := range w.globs {
		for _, file := range expand(f) {
			if _, done := out[file]; done {
				continue
			}
			if s, ok := stateOf(file); ok {
				out[file] = s
			}
		}
	}
	return out
}

func stateOf(file string) (fileState, bool) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fileState{}, false
	}
	st, err := os.Stat(real)
	if err != nil {
		return fileState{}, false
	}
	s := fileState{real: real, size: st.Size(), time: st.ModTime()}
	if b, err := readFile(real); err == nil {
		s.sum = sha256.Sum256(b)
	}
	return s, true
}

// expand returns the files that an entry stands for: the file of that very name, or those that the pattern matches.
func expand(entry string) []string {
	if _, err := os.Lstat(entry); err == nil {
		return []string{entry}
	}
	if !strings.ContainsAny(entry, `*?[\`) {
		return nil
	}
	matches, _ := filepath.Glob(entry)
	return matches
}

// matters reports whether an event at path may concern one of the files.
func (w *watcher) matters(path string) bool {
	if w.paths[path] {
		return true
	}
	for _, g := range w.globs {
		if ok, _ := filepath.Match(g, path); ok {
			return true
		}
	}
	return false
}

// trail adds to paths every name whose change can change what file is: itself, its folders, each symlink on the way and
// where that leads. A folder on the way counts only by its own name, not by what else happens in it.
func trail(file string, paths map[string]bool) {
	rest := strings.Split(strings.TrimPrefix(filepath.Clean(file), "/"), "/")
	at := "/"
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		paths[next] = true
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(filepath.Clean(target), "/"), "/"), rest...)
	}
}
