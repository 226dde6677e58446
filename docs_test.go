package toolgate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// document is a page of the documentation, cut into what it is made of.
type document struct {
	name   string // from the root
	prose  string // without fenced blocks
	blocks []block
}

// block is a fenced block.
type block struct {
	line int // of its first fence
	info string
	text string
}

// documents reads README.md and the pages of docs.
func documents(t *testing.T) []document {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	var all []document
	for _, name := range append([]string{"README.md"}, names...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		all = append(all, cut(t, name, string(text)))
	}
	return all
}

// cut separates prose and fenced blocks (CommonMark, section 4.5, of three backticks).
func cut(t *testing.T, name, text string) document {
	t.Helper()
	d := document{name: name}
	var prose strings.Builder
	var open *block
	n := 0
	for line := range strings.Lines(text) {
		n++
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			d.blocks = append(d.blocks, block{line: n, info: info})
			open = &d.blocks[len(d.blocks)-1]
		case fence:
			open = nil
		case open != nil:
			open.text += line
		default:
			prose.WriteString(line)
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block is not closed", name, open.line)
	}
	d.prose = prose.String()
	return d
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
)

// fragments returns the names by which a page's headings can be linked to.
func (d document) fragments() map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(d.prose, -1) {
		all[slug(h[1])] = true
	}
	return all
}

// slug is how GitHub names a heading: lower case, spaces as hyphens, and of the rest only letters, digits, "-" and "_".
func slug(heading string) string {
	text := link.ReplaceAllString(heading, "]")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// TestLinksResolve: every relative link leads to a file, and its fragment to a heading.
func TestLinksResolve(t *testing.T) {
	pages := map[string]document{}
	for _, d := range documents(t) {
		pages[d.name] = d
	}
	for name, d := range pages {
		for _, l := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(d.prose, ""), -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			file, fragment, _ := strings.Cut(l[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads to nothing", name, l[1])
				continue
			}
			page, known := pages[target]
			if fragment != "" && known && !page.fragments()[fragment] {
				t.Errorf("%s: %s has no heading for the link %s", name, target, l[1])
			}
		}
	}
}

var (
	sourceName = regexp.MustCompile(`^[a-z0-9_/]+/[a-z0-9_]+\.go$|^[a-z0-9_]+_test\.go$`)
	testName   = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]+$`)
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]+)\(`)
)

// TestNamedSourcesExist: a Go file, by its path from the root, and a test that a page names are there.
func TestNamedSourcesExist(t *testing.T) {
	tests := map[string]bool{}
	sourceFiles(t, func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests[f[1]] = true
		}
	})
	for _, d := range documents(t) {
		for _, span := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
			if sourceName.MatchString(span[1]) {
				if _, err := os.Stat(span[1]); err != nil {
					t.Errorf("%s names %s, which is not there", d.name, span[1])
				}
			}
			if testName.MatchString(span[1]) && !tests[span[1]] {
				t.Errorf("%s names %s, which no test file has", d.name, span[1])
			}
		}
	}
}
