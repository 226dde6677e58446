//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// group is the node's control group, a folder in each hierarchy.
func (m *machine) group() string { return "toolgate-cluster-" + m.name }

// hierarchies are where control groups are made: one in version 2, several in version 1.
func hierarchies() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}, nil
	}
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") && strings.HasPrefix(f[1], root+"/") && !slices.Contains(all, f[1]) {
			all = append(all, f[1])
		}
	}
	if all == nil {
		return nil, errors.New("no control groups are mounted below " + root)
	}
	return all, nil
}

// makeGroups makes the node's group everywhere. A cpuset of version 1 takes no process before it has been told which CPUs.
func (m *machine) makeGroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h, m.group())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(h, name))
			if err != nil {
				continue // another controller's, or version 2
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroups removes the node's groups; its processes must have ended.
func (m *machine) removeGroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var failed error
	for _, h := range all {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h, m.group()), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // it vanishes while we look
		})
		failed = errors.Join(failed, err)
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}
