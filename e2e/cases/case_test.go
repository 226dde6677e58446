//go:build linux

package cases

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replay is one bug report of somebody else's software, played against ours.
type replay struct {
	id     string
	source string                       // where the report is public
	sent   string                       // what is sent
	holds  string                       // what must hold
	run    func(t *testing.T, w *world) // w is the area's; a case that needs other settings starts its own
}

type area struct {
	name  string
	cases []replay
}

func areas() []area {
	return []area{
		{"address", addressCases()},
		{"host-parse", hostCases()},
		{"dns", dnsCases()},
		{"tls", tlsCases()},
		{"http-parse", httpCases()},
		{"lifecycle", lifecycleCases()},
		{"load", loadCases()},
		{"k8s", podCases()},
		{"killswitch", killCases()},
		{"token-cache", tokenCases()},
		{"identity", identityCases()},
		{"redaction", redactionCases()},
	}
}

// table reads lines "ID<space>text" of a file in testdata. Empty lines and lines that begin with # are left out.
func table(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	out := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, text, _ := strings.Cut(line, " ")
		if text = strings.TrimSpace(text); text == "" {
			t.Errorf("%s: %s stands alone", name, id)
		}
		if _, twice := out[id]; twice {
			t.Errorf("%s: %s stands there twice", name, id)
		}
		out[id] = text
	}
	return out
}

// TestEveryCase: each id is run here or elsewhere, or listed as one for later with the reason, and what is run is described.
func TestEveryCase(t *testing.T) {
	ids, later, elsewhere := table(t, "ids.txt"), table(t, "later.txt"), table(t, "elsewhere.txt")
	run := map[string]bool{}
	for _, a := range areas() {
		for _, c := range a.cases {
			if run[c.id] {
				t.Errorf("%s is run twice", c.id)
			}
			run[c.id] = true
			if ids[c.id] != a.name {
				t.Errorf("%s is run under %q and stands under %q in ids.txt", c.id, a.name, ids[c.id])
			}
			if c.source == "" || c.sent == "" || c.holds == "" || c.run == nil {
				t.Errorf("%s is not described whole", c.id)
			}
		}
	}
	for id := range ids {
		_, listed := later[id]
		if where := elsewhere[id]; where != "" {
			if listed || run[id] {
				t.Errorf("%s is run by %s, and here or later as well", id, where)
			}
			named(t, id, where)
		} else if !run[id] && !listed {
			t.Errorf("%s is neither run nor listed in elsewhere.txt or later.txt", id)
		}
	}
	for id := range elsewhere {
		if ids[id] == "" {
			t.Errorf("elsewhere.txt lists %s, which ids.txt has not", id)
		}
	}
	for id, reason := range later {
		if ids[id] == "" {
			t.Errorf("later.txt lists %s, which ids.txt has not", id)
		}
		// A case that is run in part may say there what is missing.
		if run[id] && !strings.HasPrefix(reason, "in part:") {
			t.Errorf("%s is run and listed in later.txt, whose reason does not begin with \"in part:\"", id)
		}
	}
}

// named fails the test unless a test of the folder that where begins with has the id as a name.
func named(t *testing.T, id, where string) {
	t.Helper()
	dir, _, _ := strings.Cut(where, " ")
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"`+id+`"`) {
			return
		}
	}
	t.Errorf("%s: found no test of this name in %s", id, dir)
}
