package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/config"
)

// entry is one manifest, good or bad.
type entry struct {
	place    string // for people: a file, or ToolManifest NAME
	name     string // of the tool; "" when the manifest is bad
	text     []byte
	warnings []string
	err      error // of the manifest itself
}

// newEntry checks a manifest.
func newEntry(place, display string, text []byte) entry {
	tool, warnings, err := config.ParseManifest(display, text)
	e := entry{place: place, text: text, err: err}
	if err == nil {
		e.name = tool.Name
		for _, w := range warnings {
			e.warnings = append(e.warnings, w.Message)
		}
	}
	return e
}

// Catalog is what is known of manifests. Its zero value knows none. Its methods may be called at once.
type Catalog struct {
	mu      sync.RWMutex
	folder  []entry
	cluster map[string]entry // by the name of the object
}

// Missing is the error for a tool without a manifest that can be used.
type Missing struct {
	Tool    string
	Message string
}

// Error says which tools there are, or why this one cannot be used.
func (m *Missing) Error() string { return m.Message }

// Manifest returns the text of a tool's manifest. The error is *Missing.
func (c *Catalog) Manifest(tool string) ([]byte, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found := c.named(tool)
	switch len(found) {
	case 0:
		return nil, &Missing{tool, c.missing()}
	case 1:
		return found[0].text, nil
	}
	return nil, &Missing{tool, fmt.Sprintf("it is defined twice, by %s and by %s: remove one", found[0].place, found[1].place)}
}

// all returns every entry, in a fixed order.
func (c *Catalog) all() []entry {
	out := slices.Clone(c.folder)
	for _, name := range slices.Sorted(maps.Keys(c.cluster)) {
		out = append(out, c.cluster[name])
	}
	return out
}

func (c *Catalog) named(tool string) []entry {
	var out []entry
	for _, e := range c.all() {
		if e.err == nil && e.name == tool {
			out = append(out, e)
		}
	}
	return out
}

// maxListed bounds how many names a message lists.
const maxListed = 20

// missing says which tools there are, and that some manifests cannot be used, since the one that is missing may be among them. What is wrong
// with those is not for whoever creates a pod: it is in the log, and in the status of a ToolManifest.
func (c *Catalog) missing() string {
	names, bad := map[string]bool{}, 0
	for _, e := range c.all() {
		if e.err != nil {
			bad++
			continue
		}
		names[e.name] = true
	}
	text := "there is no manifest of this name"
	known := slices.Sorted(maps.Keys(names))
	switch {
	case len(known) == 0:
		text += ", nor any other"
	case len(known) > maxListed:
		text += fmt.Sprintf(", but of %s and %d more", strings.Join(known[:maxListed], ", "), len(known)-maxListed)
	default:
		text += ", but of " + strings.Join(known, ", ")
	}
	if bad > 0 {
		text += fmt.Sprintf("; %d more cannot be used, as the injector's log says", bad)
	}
	return text
}

// Count returns how many manifests of the folders and of the cluster can be used, and how many not.
func (c *Catalog) Count() (folder, cluster [2]int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.folder {
		folder[c.state(e)]++
	}
	for _, e := range c.cluster {
		cluster[c.state(e)]++
	}
	return folder, cluster
}

// state is 0 for what can be used, else 1.
func (c *Catalog) state(e entry) int {
	if e.err != nil || len(c.named(e.name)) > 1 {
		return 1
	}
	return 0
}

// problems returns the mistakes of the folders' files.
func problems(entries []entry) error {
	var all config.Problems
	for _, e := range entries {
		if p, ok := e.err.(config.Problems); ok {
			all = append(all, p...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b config.Problem) int { return cmp.Compare(a.File, b.File) })
	return all
}
