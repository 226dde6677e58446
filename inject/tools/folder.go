package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
)

// maxManifestBytes bounds one file: what a pod's environment could not hold is no use.
const maxManifestBytes = 256 << 10

// patterns are the files of a folder that are manifests.
func patterns(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		for _, ext := range []string{"*.yaml", "*.yml", "*.json"} {
			out = append(out, filepath.Join(d, ext))
		}
	}
	return out
}

// LoadFolders reads every manifest of the folders in place of those read before, and returns what is wrong with some. The others can be
// used. A folder that cannot be read changes nothing.
func (c *Catalog) LoadFolders(dirs []string) error {
	var entries []entry
	for _, d := range dirs {
		if _, err := os.ReadDir(d); err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
	}
	for _, p := range patterns(dirs) {
		files, err := filepath.Glob(p)
		if err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
		for _, f := range files {
			if strings.HasPrefix(filepath.Base(f), ".") { // a mounted ConfigMap holds folders such as ..data
				continue
			}
			text, err := readManifest(f)
			if err != nil {
				err = config.Problems{{File: f, Line: 1, Col: 1, Message: "found no readable file, expected one: " + err.Error()}}
				entries = append(entries, entry{place: f, err: err})
				continue
			}
			entries = append(entries, newEntry(f, f, text))
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.place, b.place) })
	c.mu.Lock()
	c.folder = entries
	c.mu.Unlock()
	return problems(entries)
}

func readManifest(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err == nil && len(text) > maxManifestBytes {
		err = fmt.Errorf("larger than %d KiB", maxManifestBytes>>10)
	}
	return text, err
}

// WatchFolders reads the folders again whenever a file changes, until ctx ends. loaded is told after each time.
func (c *Catalog) WatchFolders(ctx context.Context, dirs []string, log *slog.Logger, loaded func(error)) error {
	load := func() { loaded(c.LoadFolders(dirs)) }
	// A change between the first reading and the first look of the watch sends no event.
	again := time.AfterFunc(time.Second, load)
	defer again.Stop()
	return config.Watch(ctx, log, func() []string { return patterns(dirs) }, load)
}
