package audit

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// digits of the number behind the name of a file that was renamed.
const digits = 6

func numbered(path string, n int) string { return fmt.Sprintf("%s.%0*d", path, digits, n) }

// number is the number behind path in the name of a file that File has renamed; 0: it has none.
func number(path, name string) int {
	suffix, ok := strings.CutPrefix(name, path+".")
	if !ok || len(suffix) < digits || strings.Trim(suffix, "0123456789") != "" {
		return 0
	}
	n, err := strconv.Atoi(suffix)
	if err != nil {
		return 0
	}
	return n
}

// rotated returns the files that File has renamed, the oldest first. The path is a clean one.
func rotated(path string) []string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		if name := filepath.Join(filepath.Dir(path), e.Name()); number(path, name) > 0 {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(number(path, a), number(path, b)) })
	return all
}

// InOrder sorts the names of record files from the oldest to the newest, as a shell's pattern does not. Behind one name, numbers of six
// digits or more grow with time (File's), shorter ones fall (logrotate's, whose newest is 1), dates grow, and the bare name is the newest. Files of
// different names keep their places.
func InOrder(names []string) []string {
	type part struct {
		name, base string
		class, n   int
	}
	parts := make([]part, len(names))
	first := map[string]int{}
	for i, name := range names {
		p := part{name: name, base: name, class: 1}
		if at := strings.LastIndexAny(name, ".-"); at > 0 {
			if suffix := name[at+1:]; suffix != "" && strings.Trim(suffix, "0123456789") == "" {
				n, err := strconv.Atoi(suffix)
				if err == nil && len(suffix) < digits {
					n = -n
				}
				p = part{name: name, base: name[:at], n: n}
			}
		}
		if _, seen := first[p.base]; !seen {
			first[p.base] = i
		}
		parts[i] = p
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(first[a.base], first[b.base]), cmp.Compare(a.class, b.class), cmp.Compare(a.n, b.n))
	})
	sorted := make([]string, len(parts))
	for i, p := range parts {
		sorted[i] = p.name
	}
	return sorted
}
