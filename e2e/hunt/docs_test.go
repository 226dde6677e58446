package hunt

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/security.md")

const tableBegin, tableEnd = "<!-- leaves:begin -->\n", "<!-- leaves:end -->\n"

// TestTable: the page says what the hunt checks.
func TestTable(t *testing.T) {
	const page = "../../docs/security.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(b), tableBegin)
	have, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatal("the page has no place for the table")
	}
	want := markdown()
	switch {
	case *update:
		if err := os.WriteFile(page, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case have != want:
		t.Error("docs/security.md has another table: go test ./e2e/hunt -run TestTable -update")
	}
}

func markdown() string {
	var b strings.Builder
	for _, g := range groups {
		b.WriteString("\n| " + g.name + " | may be in | |\n|---|---|---|\n")
		for _, r := range g.rows {
			may := "nothing"
			for i, o := range r.may {
				if i == 0 {
					may = string(o)
					continue
				}
				may += ", " + string(o)
			}
			b.WriteString("| " + r.input + " | " + may + " | " + r.why + " |\n")
		}
	}
	b.WriteString("\n")
	return b.String()
}
