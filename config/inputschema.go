package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds on what is gathered from an input schema.
const (
	maxInputFields = 1024
	maxSchemaDepth = 32
)

// inputFields returns the property names of a tool's input schema, sorted; nil when its file is not at hand. The file must lie
// within the manifest's folder: a manifest's author is not to choose what else the sidecar reads.
func (l *loader) inputFields(ref field[string], manifestFile string) []string {
	if !ref.ok {
		return nil
	}
	if l.dir == "" {
		l.warnf(ref.at, "the input schema %s is out of reach of a config from the environment, no property name will appear in records", quote(ref.V))
		return nil
	}
	if strings.Contains(ref.V, "://") {
		l.warnf(ref.at, "the input schema %s is not a file, no property name will appear in records", quote(ref.V))
		return nil
	}
	if !filepath.IsLocal(ref.V) {
		l.errorf(ref.at, "found %s, expected a path within the manifest's folder", quote(ref.V))
		return nil
	}
	b, err := l.open(filepath.Join(filepath.Dir(l.resolveBase(manifestFile)), ref.V))
	if errors.Is(err, fs.ErrNotExist) {
		l.warnf(ref.at, "the input schema %s is missing, no property name will appear in records", quote(ref.V))
		return nil
	}
	if err != nil {
		l.errorf(ref.at, "found %s, expected a readable file: %v", quote(ref.V), err)
		return nil
	}
	var schema any
	if err := json.Unmarshal(b, &schema); err != nil {
		l.errorf(ref.at, "found %s without valid JSON in it, expected a JSON Schema", quote(ref.V))
		return nil
	}
	names := map[string]bool{}
	gatherProperties(schema, names, 0)
	return slices.Sorted(maps.Keys(names))
}

// gatherProperties walks a schema and its subschemas. A property that is itself called "properties" is a name and not
// a keyword, so keywords are followed only where a schema stands.
func gatherProperties(schema any, names map[string]bool, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	if list, ok := schema.([]any); ok {
		for _, s := range list {
			gatherProperties(s, names, depth+1)
		}
		return
	}
	object, _ := schema.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		switch keyword {
		case "properties", "$defs", "definitions", "dependentSchemas", "patternProperties":
			children, _ := object[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(children)) {
				if keyword == "properties" && len(names) < maxInputFields {
					names[name] = true
				}
				gatherProperties(children[name], names, depth+1)
			}
		case "items", "prefixItems", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems",
			"additionalItems", "allOf", "anyOf", "oneOf", "not", "if", "then", "else":
			gatherProperties(object[keyword], names, depth+1)
		}
	}
}
