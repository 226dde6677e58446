package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/egress"
)

var update = flag.Bool("update", false, "write the generated schemas and tables")

// schemas are the generated files, by the raw type that each describes.
var schemas = []struct {
	file, title string
	raw         reflect.Type
}{
	{"sidecar", "Config of the sidecar", reflect.TypeFor[rawConfig]()},
	{"manifest", "Manifest of a tool", reflect.TypeFor[rawManifest]()},
	{"revocations", "Revocations", reflect.TypeFor[rawRevocations]()},
	{"signals", "Signals that become revocations", reflect.TypeFor[rawSignals]()},
}

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

type object = map[string]any

// inner returns T of a field[T].
func inner(t reflect.Type) reflect.Type {
	f, _ := t.FieldByName("V")
	return f.Type
}

// schemaOf describes one raw type from the tags and types that the decoder itself goes by.
func schemaOf(t reflect.Type, k key) object {
	v := reflect.New(t).Interface()
	switch t {
	case durationType:
		return object{"type": "string", "pattern": durationPattern}
	case timeType:
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[names]():
		one := object{"type": "string", "minLength": 1}
		many := object{"type": "array", "items": one, "uniqueItems": true}
		if k.blank {
			one = object{"type": "string"}
		}
		if k.nonempty {
			many["minItems"] = 1
		}
		return object{"anyOf": []any{one, many}}
	case reflect.TypeFor[egress.PathPattern]():
		return object{"type": "string", "pattern": "^/"}
	}
	if _, ok := v.(encoding.TextUnmarshaler); ok {
		return object{"type": "string", "minLength": 1}
	}
	switch v := v.(type) {
	case enum:
		return object{"type": "string", "enum": v.values()}
	case patterned:
		return object{"type": "string", "pattern": v.pattern()}
	case bounded:
		k.min, k.max = v.bounds()
	}
	switch t.Kind() {
	case reflect.Struct:
		return mappingSchema(t)
	case reflect.Slice:
		item := inner(t.Elem())
		s := object{"type": "array", "items": schemaOf(item, key{})}
		if item.Kind() != reflect.Struct {
			s["uniqueItems"] = true
		}
		if k.nonempty {
			s["minItems"] = 1
		}
		return s
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		lo, hi := k.bounds()
		return object{"type": "integer", "minimum": lo, "maximum": hi}
	case reflect.Float64:
		return object{"type": "number", "minimum": json.Number(k.min), "maximum": json.Number(k.max)}
	case reflect.String:
		if k.blank {
			return object{"type": "string"}
		}
		return object{"type": "string", "minLength": 1}
	}
	panic("no schema for " + t.String())
}

func mappingSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, k := range keysOf(t) {
		it := inner(t.Field(k.index).Type)
		s := schemaOf(it, k)
		s["description"] = k.doc
		if k.fallback != "" {
			s["default"] = defaultValue(it, k.fallback)
		}
		properties[k.name] = s
		if k.required {
			required = append(required, k.name)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func defaultValue(t reflect.Type, text string) any {
	switch {
	case t.Kind() == reflect.Bool:
		return text == "true"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		return json.Number(text)
	case t.Kind() == reflect.Slice && strings.Contains(text, ","):
		return strings.Split(text, ",")
	}
	return text
}

func schemaFile(name string) string { return filepath.Join("schema", name+".schema.json") }

func TestSchemasAreCurrent(t *testing.T) {
	for _, s := range schemas {
		root := mappingSchema(s.raw)
		root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", s.title
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(root); err != nil {
			t.Fatal(err)
		}
		current(t, schemaFile(s.file), want.Bytes())
	}
}

// current compares a generated file with what it should be, or writes it with -update.
func current(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date; run go test ./config -update", file)
	}
}

func compiledSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	out := map[string]*jsonschema.Schema{}
	for _, s := range schemas {
		compiled, err := jsonschema.NewCompiler().Compile(schemaFile(s.file))
		if err != nil {
			t.Fatal(err)
		}
		out[s.file] = compiled
	}
	return out
}

func schemaFor(path string) string {
	for _, kind := range []string{"manifest", "revocations", "signals"} {
		if strings.HasPrefix(filepath.Base(path), kind+"-") {
			return kind
		}
	}
	return "sidecar"
}

// instance reads a file as an editor's schema plugin would.
func instance(t *testing.T, path string) (any, error) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(b)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
}

func TestSchemasAcceptGoodFiles(t *testing.T) {
	compiled := compiledSchemas(t)
	for _, path := range corpusFiles(t, "testdata/good") {
		v, err := instance(t, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if err := compiled[schemaFor(path)].Validate(v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSchemasRefuse: of the bad files, those that are wrong in their structure alone are refused by the schema as well.
func TestSchemasRefuse(t *testing.T) {
	structural := []string{
		"form-unknown-key.yaml", "form-unknown-key.json", "form-unknown-nested-key.yaml", "form-key-other-case.yaml", "form-wrong-type.yaml",
		"form-bad-size.yaml", "form-number-range.yaml", "form-missing-keys.yaml", "form-no-version.yaml", "form-wrong-version.yaml",
		"form-wrong-kind.yaml", "form-empty-string.yaml", "form-repeated-entry.yaml", "form-list-for-scalar.yaml", "form-null.yaml",
		"form-bad-duration.yaml", "listener-none.yaml", "listener-bad-name.yaml", "identity-algorithm.yaml", "identity-claims.yaml",
		"identity-empty-audiences.yaml", "egress-ports.yaml", "egress-no-ports.yaml", "binding-auth-method.yaml", "binding-scopes.yaml",
		"log-level.yaml", "manifest-unknown-key.yaml", "manifest-missing.yaml", "manifest-bad-name.yaml", "manifest-long-name.yaml",
		"manifest-version-number.yaml", "manifest-risk.yaml", "manifest-capabilities.yaml", "manifest-side-effects.yaml",
		"manifest-timeout.yaml", "manifest-compact-keys.yaml", "manifest-no-domains.yaml", "manifest-rule-values.yaml",
		"manifest-redact-empty.yaml", "revocations-null.yaml", "revocations-missing.yaml", "revocations-no-reason.yaml",
		"revocations-unknown-field.yaml", "revocations-empty-list.yaml", "revocations-empty-value.yaml", "signals-form.yaml",
	}
	compiled := compiledSchemas(t)
	for _, name := range structural {
		path := filepath.Join("testdata/bad", name)
		v, err := instance(t, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if _, ok := errors.AsType[*jsonschema.ValidationError](compiled[schemaFor(path)].Validate(v)); !ok {
			t.Errorf("%s: the schema accepts it", path)
		}
	}
}
