package audit

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const recordsPage = "../docs/records.md"

var fieldRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .+ \\|$")

// TestRecordsPage: the page's table of fields has every key of a record, once, and no other.
func TestRecordsPage(t *testing.T) {
	text, err := os.ReadFile(recordsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## Fields\n")
	table, _, ok2 := strings.Cut(rest, "\n`error_class` is one of\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no section of fields", recordsPage)
	}
	golden, err := os.ReadFile("testdata/keys.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range fieldRow.FindAllStringSubmatch(table, -1) {
		got = append(got, row[1])
	}
	slices.Sort(got)
	if want := strings.Fields(string(golden)); !slices.Equal(got, want) {
		t.Errorf("the fields on the page are\n%v\nthe keys of a record\n%v", got, want)
	}
}
