package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/identity"
)

// tables are the generated reference tables: the document, the marker's name and the raw type.
var tables = []struct {
	file, marker string
	raw          reflect.Type
}{
	{"config.md", "keys", reflect.TypeFor[rawConfig]()},
	{"config.md", "revocation-keys", reflect.TypeFor[rawRevocations]()},
	{"manifest.md", "keys", reflect.TypeFor[rawManifest]()},
	{"signals.md", "keys", reflect.TypeFor[rawSignals]()},
}

const docs = "../docs"

func TestTablesAreCurrent(t *testing.T) {
	for _, table := range tables {
		file := filepath.Join(docs, table.file)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+table.marker+":begin -->\n", "<!-- "+table.marker+":end -->"
		head, rest, ok := strings.Cut(string(b), begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s: no markers %q", file, begin)
		}
		var out bytes.Buffer
		out.WriteString(head + begin + "| key | value | default | meaning |\n|---|---|---|---|\n")
		rows(&out, "", table.raw)
		out.WriteString(end + tail)
		current(t, file, out.Bytes())
	}
}

// TestPresetTableIsCurrent holds the table of presets in docs/identity.md to what the code fills in.
func TestPresetTableIsCurrent(t *testing.T) {
	file := filepath.Join(docs, "identity.md")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- presets:begin -->\n", "<!-- presets:end -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: no markers %q", file, begin)
	}
	presets := identity.Presets()
	lines := map[string][]string{}
	keys := []string{"algorithms", "types", "require"}
	for _, p := range presets {
		s := p.Settings()
		lines["algorithms"] = append(lines["algorithms"], cell(s.Algorithms))
		lines["types"] = append(lines["types"], cell(s.Types))
		lines["require"] = append(lines["require"], cell(s.Require))
		for _, k := range claimKeys(&rawClaims{}, &identity.ClaimMap{}, &s.Claims) {
			key := "claims." + k.name
			if lines[key] == nil {
				keys = append(keys, key)
			}
			lines[key] = append(lines[key], cell(*k.preset))
		}
		lines["match"] = append(lines["match"], strings.ReplaceAll(cell(s.MustMatch), ", ", " or "))
	}
	var out bytes.Buffer
	out.WriteString(head + begin + "| key |")
	for _, p := range presets {
		_, _ = fmt.Fprintf(&out, " `%s` |", p)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(presets)) + "\n")
	for _, key := range append(keys, "match") {
		name := "`" + key + "`"
		if key == "match" {
			name += ", which the config must have"
		}
		_, _ = fmt.Fprintf(&out, "| %s | %s |\n", name, strings.Join(lines[key], " | "))
	}
	out.WriteString(end + tail)
	current(t, file, out.Bytes())
}

// cell is a list in a table.
func cell(list []string) string {
	var out []string
	for _, s := range list {
		if s == "" {
			out = append(out, "none given")
		} else {
			out = append(out, "`"+s+"`")
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// rows writes one row a key, depth first.
func rows(out *bytes.Buffer, prefix string, t reflect.Type) {
	for _, k := range keysOf(t) {
		it := inner(t.Field(k.index).Type)
		fallback := ""
		switch {
		case k.required:
			fallback = "**required**"
		case k.fallback != "":
			fallback = "`" + strings.ReplaceAll(k.fallback, ",", ", ") + "`"
		}
		_, _ = fmt.Fprintf(out, "| `%s%s` | %s | %s | %s |\n", prefix, k.name, valueOf(it, k), fallback, strings.ReplaceAll(k.doc, "|", "\\|"))
		path := prefix + k.name
		if it.Kind() == reflect.Slice {
			it, path = inner(it.Elem()), path+"[]"
		}
		if it.Kind() == reflect.Struct {
			rows(out, path+".", it)
		}
	}
}

// valueOf names what a key holds.
func valueOf(t reflect.Type, k key) string {
	v := reflect.New(t).Interface()
	switch t {
	case durationType:
		return fmt.Sprintf("duration, %s to %s", k.min, k.max)
	case timeType:
		return "time"
	case reflect.TypeFor[names]():
		return "string or list"
	}
	if e, ok := v.(enum); ok {
		return "`" + strings.Join(e.values(), "` `") + "`"
	}
	switch t.Kind() {
	case reflect.Slice:
		item := inner(t.Elem())
		if item.Kind() == reflect.Struct && len(keysOf(item)) > 0 {
			return "list of mappings"
		}
		if e, ok := reflect.New(item).Interface().(enum); ok {
			return "list of `" + strings.Join(e.values(), "` `") + "`"
		}
		return "list"
	case reflect.Struct:
		if len(keysOf(t)) > 0 {
			return "mapping"
		}
		return "string"
	case reflect.Bool:
		return "`true` `false`"
	case reflect.Int, reflect.Float64:
		return fmt.Sprintf("number, %s to %s", k.min, k.max)
	}
	return "string"
}

// example returns the first YAML block after a heading of a document.
func example(t testing.TB, file, heading string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, file))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "\n"+heading+"\n")
	_, rest, ok2 := strings.Cut(rest, "```yaml\n")
	block, _, ok3 := strings.Cut(rest, "```")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s: no YAML block below %q", file, heading)
	}
	return block
}

// TestExamples loads what the documents show, together.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	writeKeys(t, filepath.Join(dir, "keys"))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("manifests/draft_refund_request.yaml", example(t, "manifest.md", "## A complete example"))
	write("manifests/schemas/refund-draft-input.json", `{"properties": {"order_id": {}}}`)
	revocations := write("revocations.yaml", example(t, "config.md", "## Revocations"))
	s, err := Load(write("sidecar.yaml", example(t, "config.md", "## A complete example")))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Defaults) > 0 {
		t.Errorf("the examples give warnings:\n%v", Problems(s.Defaults))
	}
	if set, err := LoadRevocations(revocations); err != nil || len(set) == 0 {
		t.Errorf("LoadRevocations: %d entries, %v", len(set), err)
	}
	compact, defaults, err := LoadManifest(write("compact.yaml", example(t, "manifest.md", "## The compact form")))
	if err != nil || len(defaults) != 1 || !strings.Contains(defaults[0].Message, "needs approval") {
		t.Errorf("LoadManifest: %v %v", defaults, err)
	}
	if compact != nil && len(compact.Roles) == 0 {
		t.Error("the compact example sets no roles")
	}
}
