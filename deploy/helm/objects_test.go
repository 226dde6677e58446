package helm

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// object is one rendered object. Its lookups of what is not there give zero values, which every check takes for wrong.
type object map[string]any

func objects(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// at walks down mappings.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func (o object) text(path ...string) string { s, _ := o.at(path...).(string); return s }

// list is a list of mappings.
func (o object) list(path ...string) []object {
	entries, _ := o.at(path...).([]any)
	var all []object
	for _, e := range entries {
		m, _ := e.(map[string]any)
		all = append(all, object(m))
	}
	return all
}

func (o object) sub(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return object(m)
}

func (o object) kind() string { return o.text("kind") }
func (o object) name() string { return o.text("metadata", "name") }
func (o object) id() string   { return o.kind() + " " + o.name() }

// podSpec is that of a pod or of what makes pods, with the labels of the pods.
func (o object) podSpec() (spec, labels object) {
	switch o.kind() {
	case "Deployment", "StatefulSet", "DaemonSet", "Job":
		return o.sub("spec", "template", "spec"), o.sub("spec", "template", "metadata", "labels")
	case "Pod":
		return o.sub("spec"), o.sub("metadata", "labels")
	}
	return nil, nil
}

// selects reports whether matchLabels of a selector match labels. An empty one matches all.
func (o object) selects(labels object) bool {
	for k, v := range o.sub("matchLabels") {
		if labels[k] != v {
			return false
		}
	}
	return true
}
