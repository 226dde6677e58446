package toolgate

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// closedSets are words that people look up and that the code decides: where they are, how to find them there, and the page
// that must explain each.
var closedSets = []struct {
	what    string
	dir     string // whose Go files, without tests
	line    *regexp.Regexp
	page    string
	atLeast int
}{
	{"reasons of the broker", "broker", regexp.MustCompile(`^\s+[A-Z]\w+ +Reason += "`), "docs/credentials.md", 25},
	{"reasons of a token refused", "identity", regexp.MustCompile(`\binvalid\("`), "docs/identity.md", 10},
	{"codes of the control plane", "killswitch/central", regexp.MustCompile(`^\s+[A-Z]\w+ +(?:central\.)?(?:Code|AlarmKind) += "`), "docs/kill-switch-central.md", 14},
	{"results of signals", "killswitch/signals", regexp.MustCompile(`^\s+[A-Z]\w+ +Result += "`), "docs/signals.md", 15},
	{"reasons of a login refused", "killswitch/central/login", regexp.MustCompile(`^\s+[A-Z]\w+ +Reason += "`), "docs/kill-switch-central.md", 7},
	{"reasons of a pod refused", "inject/pod", regexp.MustCompile(`^\s+[A-Z]\w+ +Reason += "`), "docs/kubernetes.md", 15},
	{"reasons of an admission", "inject/webhook", regexp.MustCompile(`^\s+[A-Z]\w+ +(?:Reason|Result) += "`), "docs/injector.md", 14},
	{"reasons of a Secret left alone", "inject/certs", regexp.MustCompile(`^\s+[A-Z]\w+ +Reason += "`), "docs/injector.md", 3},
	{"classes of errors", "proxy", regexp.MustCompile(`\brec\.ErrorClass\b.*[^=!]= `), "docs/records.md", 12},
}

var quotedWord = regexp.MustCompile(`"([a-z][a-z_]+)"`)

// TestWordsAreExplained: a word that a log, a record or a refusal may show is on its page.
func TestWordsAreExplained(t *testing.T) {
	for _, set := range closedSets {
		page, err := os.ReadFile(set.page)
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]bool{}
		sourceFiles(t, func(name string) {
			if !strings.HasPrefix(name, set.dir+"/") || strings.HasSuffix(name, "_test.go") {
				return
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if set.line.MatchString(line) {
					for _, w := range quotedWord.FindAllStringSubmatch(line, -1) {
						words[w[1]] = true
					}
				}
			}
		})
		if len(words) < set.atLeast {
			t.Errorf("%s: found only %d in the source: %v", set.what, len(words), words)
		}
		for w := range words {
			if !strings.Contains(string(page), "`"+w+"`") {
				t.Errorf("%s: %s does not explain `%s`", set.what, set.page, w)
			}
		}
	}
}
