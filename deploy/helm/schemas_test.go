package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// schemas makes, once in the cache, strict JSON schemas of every kind of Kubernetes and of the Prometheus operator for kubeconform: from
// the OpenAPI document in the module k8s.io/kubernetes and the definitions in the operator's. It returns their folder.
func schemas(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cache(t), "schemas", kubernetesVersion+"-"+operatorVersion)
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	readJSON(t, filepath.Join(module(t, "k8s.io/kubernetes", kubernetesVersion), "api/openapi-spec/swagger.json"), &doc)
	writeKinds(t, dir, doc.Definitions)
	crds, err := filepath.Glob(filepath.Join(module(t, "github.com/prometheus-operator/prometheus-operator", operatorVersion), "example/prometheus-operator-crd/*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("no definitions of the operator: %v", err)
	}
	for _, path := range crds {
		writeDefinition(t, dir, path)
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// module is the folder of a module, downloaded where it is missing.
func module(t *testing.T, path, version string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = t.TempDir() // outside of this module, whose go.mod has nothing to do with it
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v %s", path, err, out)
	}
	var info struct{ Dir string }
	if err := json.Unmarshal(out, &info); err != nil {
		t.Fatal(err)
	}
	return info.Dir
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeKinds writes a schema for each kind, with the definitions that it needs.
func writeKinds(t *testing.T, dir string, definitions map[string]map[string]any) {
	t.Helper()
	strict := map[string]any{}
	for name, d := range definitions {
		strict[name] = closed(d)
		for _, free := range []string{".JSON", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "RawExtension", "FieldsV1"} {
			if strings.HasSuffix(name, free) {
				strict[name] = map[string]any{}
			}
		}
	}
	strict["io.k8s.apimachinery.pkg.api.resource.Quantity"] = map[string]any{"type": []any{"string", "number"}}
	for name, d := range definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			gvk := k.(map[string]any)
			if strings.HasSuffix(name, "DeleteOptions") || strings.HasSuffix(name, "WatchEvent") {
				continue
			}
			needs := map[string]any{}
			collect(strict[name], strict, needs)
			writeSchema(t, dir, strict[name].(map[string]any), needs, gvk["group"].(string), gvk["version"].(string), gvk["kind"].(string))
		}
	}
}

// writeDefinition writes the schemas of a CustomResourceDefinition.
func writeDefinition(t *testing.T, dir, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					Open map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		s := closed(v.Schema.Open).(map[string]any)
		s["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
		writeSchema(t, dir, s, map[string]any{}, crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
	}
}

func writeSchema(t *testing.T, dir string, schema, needs map[string]any, group, version, kind string) {
	t.Helper()
	one := map[string]any{}
	for k, v := range schema {
		one[k] = v
	}
	properties := map[string]any{}
	for k, v := range schema["properties"].(map[string]any) {
		properties[k] = v
	}
	apiVersion := strings.TrimPrefix(group+"/"+version, "/")
	properties["apiVersion"] = map[string]any{"enum": []string{apiVersion}}
	properties["kind"] = map[string]any{"enum": []string{kind}}
	one["properties"], one["definitions"], one["$schema"] = properties, needs, "http://json-schema.org/draft-07/schema#"
	data, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(group, ".")
	name := strings.ToLower(strings.Join(slices.DeleteFunc([]string{kind, short, version}, func(s string) bool { return s == "" }), "-")) + ".json"
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// closed is a schema that knows no other properties than those it names.
func closed(v any) any {
	switch v := v.(type) {
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = closed(e)
		}
		return all
	case map[string]any:
		return closedObject(v)
	}
	return v
}

func closedObject(v map[string]any) any {
	if v["format"] == "int-or-string" || v["x-kubernetes-int-or-string"] == true {
		return map[string]any{"type": []any{"string", "integer"}}
	}
	s := map[string]any{}
	for k, e := range v {
		// A property can be named as a keyword is, and is then a schema.
		if isSchema(e) || k != "format" && !strings.HasPrefix(k, "x-kubernetes-") {
			s[k] = closed(e)
		}
	}
	if isSchema(v["properties"]) && s["additionalProperties"] == nil && v["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	if kind, ok := s["type"].(string); ok {
		s["type"] = []any{kind, "null"}
	}
	return s
}

func isSchema(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// collect adds to found the definitions that v refers to.
func collect(v any, all, found map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			collect(e, all, found)
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/definitions/")
			if found[name] == nil {
				found[name] = all[name]
				collect(all[name], all, found)
			}
		}
		for _, e := range v {
			collect(e, all, found)
		}
	}
}
