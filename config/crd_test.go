package config

import (
	"encoding"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/toolgate/toolgate/egress"
)

const crdFile = "../deploy/helm/toolgate/crds/toolmanifests.yaml"

// Bounds of the CRD alone: the API server refuses rules whose cost it cannot bound. They are far beyond any manifest that fits a pod.
const (
	crdItems = 256
	crdChars = 1024
)

// rule is one of x-kubernetes-validations.
func celRule(rule, message string) object { return object{"rule": rule, "message": message} }

// domainRules are what the pattern language of a schema cannot say of a domain. Public suffixes are left to the webhook.
func domainRules() []any {
	return []any{
		celRule(`!self.contains('/') && !self.contains(' ')`, "expected a domain such as api.example.com, without scheme and path"),
		celRule(`!self.contains('*') || (self.startsWith('*.') && !self.substring(1).contains('*'))`,
			"a wildcard stands for whole labels at the front, as in *.example.com; a bare * is refused"),
	}
}

// onceOf says that a thing has one of two spellings.
func onceOf(full, compact string) object {
	has := func(path string) string {
		parts, at, out := strings.Split(path, "."), "self", []string{}
		for _, p := range parts {
			at += "." + p
			out = append(out, "has("+at+")")
		}
		return "(" + strings.Join(out, " && ") + ")"
	}
	return celRule("!("+has(full)+" && "+has(compact)+")", "found "+full+" and "+compact+", expected one of the two")
}

// crdSchemaOf is schemaOf in the form of a structural schema. Keys that are not known are kept, for the injector to refuse: dropped, a
// misspelt one would leave a tool with less than its author asked for and nobody told.
func crdSchemaOf(t reflect.Type, k key) object {
	v := reflect.New(t).Interface()
	switch t {
	case reflect.TypeFor[egress.PathPattern]():
		return object{"type": "string", "pattern": "^/", "maxLength": crdChars}
	case reflect.TypeFor[egress.Pattern]():
		return object{"type": "string", "minLength": 1, "maxLength": 270, "x-kubernetes-validations": domainRules()}
	}
	if _, ok := v.(encoding.TextUnmarshaler); ok {
		return object{"type": "string", "minLength": 1, "maxLength": crdChars}
	}
	if t.Kind() == reflect.Struct {
		return crdMapping(t)
	}
	if t.Kind() == reflect.Slice {
		item := inner(t.Elem())
		s := object{"type": "array", "items": crdSchemaOf(item, key{}), "maxItems": crdItems}
		if item.Kind() != reflect.Struct || isText(item) {
			s["x-kubernetes-list-type"] = "set"
		} else {
			s["x-kubernetes-list-type"] = "atomic"
		}
		if k.nonempty {
			s["minItems"] = 1
		}
		return s
	}
	s := schemaOf(t, k)
	if s["type"] == "string" && s["enum"] == nil {
		s["maxLength"] = crdChars
	}
	return s
}

func isText(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	return ok
}

func crdMapping(t reflect.Type) object {
	properties, required := object{}, []any{}
	for _, k := range keysOf(t) {
		s := crdSchemaOf(inner(t.Field(k.index).Type), k)
		s["description"] = k.doc
		if k.fallback != "" {
			s["description"] = k.doc + " Missing: " + k.fallback + "."
		}
		properties[k.name] = s
		if k.required {
			required = append(required, k.name)
		}
	}
	out := object{"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": true}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func crd() object {
	spec := crdMapping(reflect.TypeFor[rawManifest]())
	spec["description"] = "The manifest of a tool, with the keys of docs/manifest.md."
	spec["x-kubernetes-validations"] = []any{
		onceOf("capabilityClasses", "capabilities"), onceOf("sideEffects", "side_effects"), onceOf("inputSchemaRef", "input_schema"),
		onceOf("outputSchemaRef", "output_schema"), onceOf("observability.requiredTraceFields", "trace.fields"), onceOf("approvalRequired", "approval"),
		celRule("!has(self.egress) || !has(self.egress.rules) || size(self.egress.rules) == 0 || size(self.egress.allowedDomains) > 0",
			"found egress.rules without egress.allowedDomains: a rule narrows the list and adds nothing to it"),
	}
	condition := object{"type": "object", "required": []any{"type", "status", "lastTransitionTime", "reason", "message"}, "properties": object{
		"type": object{"type": "string", "maxLength": 316}, "status": object{"type": "string", "enum": []any{"True", "False", "Unknown"}},
		"observedGeneration": object{"type": "integer", "format": "int64", "minimum": 0}, "lastTransitionTime": object{"type": "string", "format": "date-time"},
		"reason": object{"type": "string", "minLength": 1, "maxLength": 1024}, "message": object{"type": "string", "maxLength": 32768},
	}}
	column := func(name, kind, path string) object { return object{"name": name, "type": kind, "jsonPath": path} }
	version := object{
		"name": "v1alpha1", "served": true, "storage": true, "subresources": object{"status": object{}},
		"additionalPrinterColumns": []any{
			column("Tool", "string", ".spec.name"), column("Risk", "string", ".spec.risk"), column("Version", "string", ".spec.version"), column("Owner", "string", ".spec.owner"),
			column("Accepted", "string", `.status.conditions[?(@.type=="Accepted")].status`), column("Age", "date", ".metadata.creationTimestamp"),
		},
		"schema": object{"openAPIV3Schema": object{
			"type": "object", "description": "The manifest of one tool, for the pods of a cluster.", "required": []any{"spec"},
			"properties": object{
				"apiVersion": object{"type": "string"}, "kind": object{"type": "string"}, "metadata": object{"type": "object"}, "spec": spec,
				"status": object{"type": "object", "properties": object{"conditions": object{
					"type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
				}}},
			},
		}},
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "toolmanifests.toolgate.dev"},
		"spec": object{
			"group": "toolgate.dev", "scope": "Cluster", "versions": []any{version},
			"names": object{"kind": "ToolManifest", "listKind": "ToolManifestList", "plural": "toolmanifests", "singular": "toolmanifest", "shortNames": []any{"tm"}, "categories": []any{"toolgate"}},
		},
	}
}

func TestCRDIsCurrent(t *testing.T) {
	text, err := yaml.MarshalWithOptions(crd(), yaml.UseSingleQuote(true))
	if err != nil {
		t.Fatal(err)
	}
	current(t, crdFile, append([]byte("# Generated from the manifest's keys: go test ./config -update\n"), text...))
}
