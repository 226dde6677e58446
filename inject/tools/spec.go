package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// document is the spec of a ToolManifest as a manifest's text, one key or list entry a line, so that the line of a mistake tells the field.
type document struct {
	text   bytes.Buffer
	fields []string // of each line
}

// render writes a spec as JSON, its keys sorted.
func render(spec any) *document {
	d := &document{}
	d.value("spec", spec)
	return d
}

// line ends a line and says which field it was about.
func (d *document) line(field string) {
	d.text.WriteByte('\n')
	d.fields = append(d.fields, field)
}

func (d *document) value(field string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			d.text.WriteString("{}")
			return
		}
		d.text.WriteByte('{')
		d.line(field)
		keys := slices.Sorted(maps.Keys(v))
		for i, k := range keys {
			d.scalar(k)
			d.text.WriteString(": ")
			d.value(field+"."+k, v[k])
			d.next(i, len(keys), field+"."+k)
		}
		d.text.WriteByte('}')
	case []any:
		if len(v) == 0 {
			d.text.WriteString("[]")
			return
		}
		d.text.WriteByte('[')
		d.line(field)
		for i, item := range v {
			at := field + "[" + strconv.Itoa(i) + "]"
			d.value(at, item)
			d.next(i, len(v), at)
		}
		d.text.WriteByte(']')
	default:
		d.scalar(v)
	}
}

func (d *document) next(i, n int, field string) {
	if i < n-1 {
		d.text.WriteByte(',')
	}
	d.line(field)
}

func (d *document) scalar(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null") // no value that came as JSON
	}
	d.text.Write(b)
}

// field returns the field that a line is about.
func (d *document) field(line int) string {
	if line < 1 || line > len(d.fields) {
		return "spec"
	}
	return d.fields[line-1]
}

// newObjectEntry checks the spec of a ToolManifest. Its mistakes name fields, not lines of a text that nobody has seen.
func newObjectEntry(object string, spec any) entry {
	place := "ToolManifest " + object
	d := render(spec)
	if d.text.Len() > maxManifestBytes {
		return entry{place: place, err: fmt.Errorf("the spec is larger than %d KiB", maxManifestBytes>>10)}
	}
	e := newEntry(place, object, d.text.Bytes())
	if found, ok := errors.AsType[config.Problems](e.err); ok {
		e.err = d.mistakes(found)
	}
	if compact, err := json.Marshal(spec); err == nil && e.err == nil {
		e.text = append(compact, '\n')
	}
	return e
}

// maxMistakes bounds what a status or a refusal repeats.
const maxMistakes = 10

func (d *document) mistakes(found config.Problems) error {
	var lines []string
	for i, p := range found {
		if i == maxMistakes {
			lines = append(lines, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		lines = append(lines, d.field(p.Line)+": "+p.Message)
	}
	return errors.New(strings.Join(lines, "; "))
}

// Check checks the spec, as JSON, that the object is about to get: that it is a manifest, and that no other place defines its tool.
func (c *Catalog) Check(object string, spec []byte) (warnings []string, err error) {
	e, err := parseObject(object, spec)
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if other := c.rival(object, e.name); other != "" {
		return nil, fmt.Errorf("spec.name: found tool %q, which %s defines already, expected another name", e.name, other)
	}
	return e.warnings, nil
}

func parseObject(object string, spec []byte) (entry, error) {
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return entry{}, errors.New("spec: found none that can be read, expected a manifest")
	}
	e := newObjectEntry(object, v)
	return e, e.err
}

// rival names another place than the object that defines the tool, or returns "".
func (c *Catalog) rival(object, tool string) string {
	for _, e := range c.folder {
		if e.err == nil && e.name == tool {
			return e.place
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.cluster)) {
		if e := c.cluster[name]; name != object && e.err == nil && e.name == tool {
			return e.place
		}
	}
	return ""
}
