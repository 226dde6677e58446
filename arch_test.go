package toolgate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/toolgate/toolgate"

// may lists, for each package, the packages of this module that it may import. Gates are leaves; proxy runs them; cmd
// wires. A package that is not listed fails the test.
var may = map[string][]string{
	".":                          {},
	"redact":                     {"redact/detect", "redact/known"},
	"roots":                      {},
	"egress":                     {},
	"killswitch":                 {},
	"identity":                   {},
	"killswitch/ledger":          {"killswitch"},
	"killswitch/bus":             {"killswitch", "killswitch/ledger"},
	"killswitch/bus/bustest":     {"killswitch/bus", "killswitch/ledger"},
	"devissuer":                  {},
	"inject":                     {},
	"inject/settings":            {},
	"inject/pod":                 {"inject/settings"},
	"inject/webhook":             {"inject/pod", "inject/settings"},
	"inject/certs":               {"config", "killswitch/ledger"},
	"inject/tools":               {"config"},
	"redact/detect":              {"redact/detect/pattern"},
	"redact/detect/pattern":      {},
	"redact/corpustest":          {},
	"redact/known":               {"redact/detect"},
	"broker":                     {"redact", "redact/detect", "redact/known"},
	"broker/awstest":             {},
	"audit":                      {"redact"},
	"audit/ship":                 {"audit", "tracing/otlp"},
	"config":                     {"broker", "egress", "identity", "killswitch", "killswitch/ledger", "killswitch/signals", "redact", "roots", "tracing/otlp"},
	"tracing":                    {"audit", "redact", "tracing/otlp"},
	"tracing/otlp":               {},
	"fixture/har":                {},
	"prefix":                     {},
	"fixture":                    {"fixture/har", "prefix", "redact"},
	"fixture/replay":             {"fixture/har"},
	"proxy":                      {"audit", "broker", "fixture", "config", "egress", "identity", "killswitch", "prefix", "redact", "tracing"},
	"cmd/cli":                    {"redact"},
	"cmd/sidecar":                {"audit", "audit/ship", "broker", "fixture", "fixture/har", "fixture/replay", "cmd/cli", "config", "devissuer", "egress", "identity", "inject", "killswitch", "killswitch/bus", "killswitch/ledger", "proxy", "redact", "roots", "tracing", "tracing/otlp"},
	"e2e":                        {"devissuer"},
	"e2e/cases":                  {},
	"e2e/hunt":                   {},
	"e2e/sources":                {},
	"deploy/helm":                {},
	"killswitch/central":         {"killswitch", "killswitch/bus", "killswitch/ledger"},
	"killswitch/central/natsd":   {"killswitch/bus"},
	"killswitch/central/api":     {"killswitch/central", "killswitch/ledger"},
	"killswitch/central/login":   {"killswitch/central", "killswitch/central/api"},
	"killswitch/central/console": {"killswitch/central", "killswitch/central/api", "killswitch/central/login", "killswitch/ledger"},
	"killswitch/signals":         {"identity", "killswitch"},
	"cmd/injector":               {"cmd/cli", "config", "inject/certs", "inject/pod", "inject/settings", "inject/tools", "inject/webhook", "redact"},
	"cmd/killswitch":             {"cmd/cli", "config", "identity", "killswitch/bus", "killswitch/central", "killswitch/central/api", "killswitch/central/console", "killswitch/central/login", "killswitch/central/natsd", "killswitch/ledger", "killswitch/signals", "redact"},
	"deploy/oci":                 {"deploy/oci/layout"},
	"deploy/oci/layout":          {},
	"e2e/cluster":                {"deploy/oci/layout"},
}

// testsMay lists what the tests of a package may import besides.
var testsMay = map[string][]string{
	".":                          {"config"},
	"redact":                     {"redact/corpustest"},
	"redact/detect":              {"redact/corpustest"},
	"identity":                   {"devissuer"},
	"broker":                     {"broker/awstest", "devissuer"},
	"proxy":                      {"devissuer", "tracing/otlp"},
	"killswitch/bus":             {"killswitch/bus/bustest"},
	"cmd/sidecar":                {"devissuer", "killswitch/bus/bustest"},
	"deploy/helm":                {"config", "inject/pod", "inject/settings"},
	"inject/certs":               {"killswitch/central", "killswitch/central/api"},
	"inject/pod":                 {"config", "inject"},
	"e2e/hunt":                   {"broker/awstest", "devissuer", "e2e/sources", "killswitch/bus/bustest", "killswitch/ledger"},
	"e2e":                        {"e2e/sources"},
	"e2e/cases":                  {"broker/awstest", "devissuer", "e2e/sources", "killswitch/bus", "killswitch/bus/bustest", "killswitch/ledger"},
	"killswitch/central":         {"killswitch/central/natsd"},
	"killswitch/central/natsd":   {"killswitch/ledger"},
	"killswitch/central/api":     {"killswitch/central/natsd"},
	"killswitch/central/login":   {"devissuer"},
	"killswitch/central/console": {"devissuer", "killswitch/bus", "killswitch/central/natsd"},
	"killswitch/signals":         {"devissuer"},
	"cmd/killswitch":             {"devissuer", "killswitch"},
}

// barred lists third-party modules that leaves must not know: YAML is config's, HTTP statuses are proxy's, the command line is
// cmd's, Kubernetes is the injector's.
var barred = map[string][]string{
	"github.com/goccy/go-yaml":            {"config", "inject/settings"},
	"github.com/elazarl/goproxy":          {"proxy"},
	"github.com/prometheus/client_golang": {"proxy", "killswitch/central", "killswitch/central/api", "inject/webhook"},
	"github.com/nats-io/nats-server":      {"killswitch/central/natsd", "killswitch/bus/bustest"},
	"github.com/nats-io/nats.go":          {"killswitch/bus", "killswitch/bus/bustest", "killswitch/central", "killswitch/central/natsd", "cmd/killswitch", "e2e"},
	"github.com/miekg/dns":                {"proxy", "e2e/cluster"},
	"github.com/spf13/cobra":              {"cmd/cli", "cmd/sidecar", "cmd/killswitch", "cmd/injector"},
	"github.com/fsnotify/fsnotify":        {"config"},
	"github.com/coreos/go-oidc":           {"identity", "killswitch/central/login"},
	"github.com/google/nftables":          {"inject"},
	"github.com/mdlayher/netlink":         {"inject"},
	"golang.org/x/crypto/x509roots":       {"roots", "cmd/sidecar", "deploy/oci"},
	"software.sslmate.com/src/go-pkcs12":  {"roots"},
	"github.com/aws/":                     {"broker"},
	"golang.org/x/oauth2":                 {"broker", "killswitch/central/login"},
	"go.opentelemetry.io/":                {"audit/ship", "tracing"},
	"google.golang.org/grpc":              {},
	"k8s.io/":                             {"inject/pod", "inject/settings", "inject/webhook", "inject/certs", "inject/tools", "cmd/injector"},
	"k8s.io/client-go":                    {"inject/certs", "inject/tools", "cmd/injector"},
	"sigs.k8s.io/":                        {"inject/pod", "inject/webhook", "inject/certs", "inject/tools", "cmd/injector"},
}

// sources calls f with every Go file of this module and its package's folder. It parses in this process: a subprocess such
// as go list would escape the test cache's key.
func sources(t *testing.T, f func(name, dir string, file *ast.File)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := path.Base(name)
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || nested(name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		f(name, path.Dir(name), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nested reports whether dir is a module of its own.
func nested(dir string) bool {
	_, err := os.Stat(path.Join(dir, "go.mod"))
	return err == nil
}

func TestImports(t *testing.T) {
	sources(t, func(name, dir string, file *ast.File) {
		allowed, known := may[dir]
		if !known {
			t.Errorf("%s: package %s is not in the import table", name, dir)
			return
		}
		test := strings.HasSuffix(name, "_test.go")
		if test {
			allowed = append(slices.Clone(allowed), append(testsMay[dir], dir)...)
		}
		for _, i := range file.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			if dep, ours := strings.CutPrefix(p, module+"/"); ours && !slices.Contains(allowed, dep) {
				t.Errorf("%s: %s must not import %s", name, dir, dep)
			}
			for prefix, owners := range barred {
				if strings.HasPrefix(p, prefix) && !test && !slices.Contains(owners, dir) {
					t.Errorf("%s: %s is for %v only", name, prefix, owners)
				}
			}
		}
	})
}

// TestImportTableIsNoWish fails when the table lists a package that is not there.
func TestImportTableIsNoWish(t *testing.T) {
	found := map[string]bool{".": true}
	sources(t, func(_, dir string, _ *ast.File) { found[dir] = true })
	for dir := range may {
		if !found[dir] {
			t.Errorf("the import table lists %s, which has no Go file", dir)
		}
	}
}

// TestPackageDocs: one package comment each, which says what it is for, its limits and who may import it.
func TestPackageDocs(t *testing.T) {
	docs := map[string][]string{}
	sources(t, func(name, dir string, file *ast.File) {
		if file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			docs[dir] = append(docs[dir], file.Doc.Text())
		}
	})
	for dir := range may {
		if dir == "." {
			continue
		}
		d := docs[dir]
		if len(d) != 1 {
			t.Errorf("%s has %d package comments, expected 1", dir, len(d))
			continue
		}
		if strings.HasPrefix(d[0], "Command ") {
			continue // a command's comment is its manual
		}
		for _, want := range []string{"Package " + path.Base(dir) + " ", "Limits:", "may import it"} {
			if !strings.Contains(d[0], want) {
				t.Errorf("%s: the package comment lacks %q", dir, want)
			}
		}
	}
}

// TestStatusesAreTheEdges: HTTP statuses of refusals are known in one place.
func TestStatusesAreTheEdges(t *testing.T) {
	for _, dir := range []string{"egress", "killswitch", "redact", "audit"} {
		sources(t, func(name, d string, file *ast.File) {
			if d != dir || strings.HasSuffix(name, "_test.go") {
				return
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Status") {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "http" {
						t.Errorf("%s: a gate must not know HTTP statuses", name)
					}
				}
				return true
			})
		})
	}
}
