package main

import (
	"regexp"
	"strings"
	"testing"
)

const operationsPage = "../../../docs/operations.md"

// TestRunbooks: each alert leads to a runbook, each runbook is some alert's, and none leaves a question open.
func TestRunbooks(t *testing.T) {
	page := read(t, operationsPage)
	all := alerts(t)
	found := map[string]bool{}
	sections := regexp.MustCompile(`(?m)^(#{2,3}) (.+)$`).FindAllStringSubmatchIndex(page, -1)
	for i, s := range sections {
		name := page[s[4]:s[5]]
		if !strings.HasPrefix(name, "Toolgate") {
			continue
		}
		end := len(page)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		text := page[s[0]:end]
		if _, there := all[name]; !there {
			t.Errorf("%s: the runbook %s is no alert's", operationsPage, name)
		}
		found[name] = true
		for _, part := range []string{"**Means.** ", "**Tools.** ", "**Look.**", "```sh\n", "**Mend.** ", "**Escalate.** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: %s: expected %q once", operationsPage, name, part)
			}
		}
	}
	for name := range all {
		if !found[name] {
			t.Errorf("%s: no runbook for %s", operationsPage, name)
		}
	}
	for _, named := range regexp.MustCompile(`\bToolgate[A-Z][A-Za-z]+\b`).FindAllString(page, -1) {
		if _, there := all[named]; !there && named != "ToolManifests" {
			t.Errorf("%s names the alert %s, which is not there", operationsPage, named)
		}
	}
}
