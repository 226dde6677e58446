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

// binaries are the programs of cmd whose commands pages show.
var binaries = []string{"sidecar", "killswitch", "injector"}

// commandFunc is what a function of a program adds to a command.
type commandFunc struct {
	use   string   // of the command that it makes
	flags []string // with their dashes
	calls []string
}

// commands reads from the source of a program which flags each command has. A function that makes a command sets Use; the
// helpers that it calls, and those that they call, add flags as well. Starting the program instead would escape the test
// cache.
func commands(t *testing.T, binary string) map[string][]string {
	t.Helper()
	funcs := map[string]*commandFunc{}
	sources(t, func(_, dir string, file *ast.File) {
		prefix := ""
		switch dir {
		case "cmd/" + binary:
		case "cmd/cli":
			prefix = "cli."
		default:
			return
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				funcs[prefix+f.Name.Name] = read(f)
			}
		}
	})
	all := map[string][]string{}
	for _, f := range funcs {
		name, _, _ := strings.Cut(f.use, " ")
		if name == "" || name == binary {
			continue
		}
		all[name] = append([]string{"--help", "-h"}, f.allFlags(funcs)...)
		for _, called := range f.calls { // a command of commands
			if g := funcs[called]; g != nil && g.use != "" {
				below, _, _ := strings.Cut(g.use, " ")
				all[name+" "+below] = append([]string{"--help", "-h"}, g.allFlags(funcs)...)
			}
		}
	}
	all["completion"] = nil // cobra's own
	return all
}

// allFlags are a function's and its helpers'.
func (c *commandFunc) allFlags(funcs map[string]*commandFunc) []string {
	flags := slices.Clone(c.flags)
	for _, called := range c.calls {
		if g := funcs[called]; g != nil && g != c && g.use == "" {
			flags = append(flags, g.allFlags(funcs)...)
		}
	}
	return flags
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
				if x, ok := fun.X.(*ast.Ident); ok && x.Name == "cli" {
					c.calls = append(c.calls, "cli."+fun.Sel.Name)
				}
			}
		}
		return true
	})
	return c
}

var flagMethod = regexp.MustCompile(`^(?:String|Bool|Int|Duration|StringSlice|StringArray|StringToString)(Var)?(P)?$`)

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

// commandLines returns what a page tells its reader to type after a program's name.
func (d document) commandLines(binary string) []string {
	invocation := regexp.MustCompile(`(?:^|[\s(;&|/])` + binary + ` ([^\n;&|)]+)`)
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
		if strings.HasPrefix(span[1], binary+" ") {
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
	for binary, want := range map[string][]string{"sidecar": {"explain", "--config", "-o"}, "killswitch": {"revoke", "--tool", "--server", "-o"}} {
		if !slices.Contains(binaries, binary) {
			t.Errorf("%s is not looked at", binary)
		}
		known := commands(t, binary)[want[0]]
		for _, flag := range want[1:] {
			if !slices.Contains(known, flag) {
				t.Errorf("%s %s: the flags were not read from the source: %v", binary, want[0], known)
			}
		}
	}
	for _, binary := range binaries {
		checkCommandLines(t, binary)
	}
}

func checkCommandLines(t *testing.T, binary string) {
	known := commands(t, binary)
	total := 0
	for _, d := range documents(t) {
		for _, line := range d.commandLines(binary) {
			words := strings.Fields(line)
			if len(words) > 1 && known[words[0]+" "+words[1]] != nil {
				words = append([]string{words[0] + " " + words[1]}, words[2:]...)
			}
			flags, ok := known[words[0]]
			if !ok {
				t.Errorf("%s: there is no command %q", d.name, binary+" "+words[0])
				continue
			}
			total++
			for _, w := range words[1:] {
				name, _, _ := strings.Cut(w, "=")
				if strings.HasPrefix(w, "-") && !slices.Contains(flags, name) {
					t.Errorf("%s: %s %s has no flag %s", d.name, binary, words[0], name)
				}
			}
		}
	}
	if total == 0 {
		t.Errorf("no page shows a command of %s", binary)
	}
}
