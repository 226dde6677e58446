package toolgate

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sourceFiles calls f with the name of every Go file of this module.
func sourceFiles(t *testing.T, f func(name string)) {
	t.Helper()
	sources(t, func(name, _ string, _ *ast.File) { f(name) })
}

// commandFunc is what a function of cmd/sidecar adds to a command.
type commandFunc struct {
	use   string   // of the command that it makes
	flags []string // with their dashes
	calls []string
}

// commands reads from the source of cmd/sidecar which flags each command has. A function that makes a command sets Use; the
// helpers that it calls add flags as well. Starting the program instead would escape the test cache.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	funcs := map[string]*commandFunc{}
	sources(t, func(_, dir string, file *ast.File) {
		if dir != "cmd/sidecar" {
			return
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				funcs[f.Name.Name] = read(f)
			}
		}
	})
	all := map[string][]string{}
	for _, f := range funcs {
		name, _, _ := strings.Cut(f.use, " ")
		if name == "" || name == "sidecar" {
			continue
		}
		flags := append([]string{"--help", "-h"}, f.flags...)
		for _, called := range f.calls {
			if g := funcs[called]; g != nil && g.use == "" {
				flags = append(flags, g.flags...)
			}
		}
		all[name] = flags
	}
	return all
}

func read(f *ast.FuncDecl) *commandFunc {
	c := &commandFunc{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
				c.use = literal(n.Value)
			}
		case *ast.CallExpr:
			switch fun := n.Fun.(type) {
			case *ast.Ident:
				c.calls = append(c.calls, fun.Name)
			case *ast.SelectorExpr:
				c.flags = append(c.flags, flagNames(fun.Sel.Name, n.Args)...)
			}
		}
		return true
	})
	return c
}

var flagMethod = regexp.MustCompile(`^(?:String|Bool|Int|Duration|StringSlice|StringArray)(Var)?(P)?$`)

// flagNames returns the flags that a call of a pflag method adds: the name comes first, or after the variable, and then the
// short form.
func flagNames(method string, args []ast.Expr) []string {
	m := flagMethod.FindStringSubmatch(method)
	if m == nil || len(args) < 3 {
		return nil
	}
	if m[1] != "" {
		args = args[1:]
	}
	flags := []string{"--" + literal(args[0])}
	if m[2] != "" {
		flags = append(flags, "-"+literal(args[1]))
	}
	return flags
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

var invocation = regexp.MustCompile(`(?:^|[\s(;&|/])sidecar ([^\n;&|)]+)`)

// commandLines returns what a page tells its reader to type after "sidecar".
func (d document) commandLines() []string {
	var texts []string
	for _, b := range d.blocks {
		text := strings.ReplaceAll(b.text, "\\\n", " ")
		switch b.info {
		case "sh":
			texts = append(texts, text)
		case "": // a session: what stands after the prompt was typed
			for line := range strings.Lines(text) {
				if typed, ok := strings.CutPrefix(line, "$ "); ok {
					texts = append(texts, typed)
				}
			}
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
		if strings.HasPrefix(span[1], "sidecar ") {
			texts = append(texts, span[1])
		}
	}
	var lines []string
	for _, text := range texts {
		for line := range strings.Lines(text) {
			for _, m := range invocation.FindAllStringSubmatch(line, -1) {
				lines = append(lines, m[1])
			}
		}
	}
	return lines
}

// TestCommandLines: every command that a page shows exists, with the flags that it is shown with.
func TestCommandLines(t *testing.T) {
	known := commands(t)
	if len(known["explain"]) < 8 || !slices.Contains(known["check"], "--config") || !slices.Contains(known["check"], "-o") {
		t.Fatalf("the commands were not read from the source: %v", known)
	}
	total := 0
	for _, d := range documents(t) {
		for _, line := range d.commandLines() {
			words := strings.Fields(line)
			flags, ok := known[words[0]]
			if !ok {
				t.Errorf("%s: there is no command %q", d.name, "sidecar "+words[0])
				continue
			}
			total++
			for _, w := range words[1:] {
				name, _, _ := strings.Cut(w, "=")
				if strings.HasPrefix(w, "-") && !slices.Contains(flags, name) {
					t.Errorf("%s: sidecar %s has no flag %s", d.name, words[0], name)
				}
			}
		}
	}
	if total == 0 {
		t.Error("no page shows a command")
	}
}
