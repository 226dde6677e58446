package config

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// field is a value as it stands in a file, with its place, so that a later check can point at it.
type field[T any] struct {
	V       T
	at      mark
	present bool // the key is in the file
	ok      bool // V is valid: decoded, or filled from the default
}

// anyField is what the decoder needs of a field[T].
type anyField interface {
	decode(d *decoder, n *node, k key)
	absent(d *decoder, at mark, k key)
	place() (at mark, there bool)
}

func (f *field[T]) decode(d *decoder, n *node, k key) {
	f.at, f.present = n.at, true
	f.ok = d.value(n, reflect.ValueOf(&f.V).Elem(), k)
}

// place returns where the key stands, and whether it is in the file.
func (f *field[T]) place() (at mark, there bool) { return f.at, f.present }

// absent fills the default that the key's tag names, and those of every key below it.
func (f *field[T]) absent(d *decoder, at mark, k key) {
	f.at = at
	v := reflect.ValueOf(&f.V).Elem()
	switch {
	case k.required:
		d.errorf(at, "found no key %s, expected it: %s", quote(k.name), expectedOf(v.Type()))
	case k.fallback != "":
		f.ok = d.value(defaultNode(at, v.Type(), k.fallback), v, k)
	case v.Kind() == reflect.Struct && len(keysOf(v.Type())) > 0:
		(&decoder{report: &report{}}).keys(&node{kind: mappingNode, at: at}, v)
	}
}

// defaultNode turns a default tag into the node that the file would have held.
func defaultNode(at mark, t reflect.Type, text string) *node {
	n := &node{kind: stringNode, text: text, at: at}
	switch {
	case t == durationType:
	case t.Kind() == reflect.Bool:
		n.kind = boolNode
	case t.Kind() == reflect.Int:
		n.kind = intNode
	case t.Kind() == reflect.Float64:
		n.kind = floatNode
	case t.Kind() == reflect.Slice:
		n = &node{kind: listNode, at: at}
		for _, s := range strings.Split(text, ",") {
			n.items = append(n.items, &node{kind: stringNode, text: strings.TrimSpace(s), at: at})
		}
	}
	return n
}

// key is one key of a mapping, from the tags of a raw struct. The tags are the one source of the decoder's checks, of
// the JSON Schemas and of the reference tables.
type key struct {
	name     string
	index    int
	doc      string
	fallback string // default
	min, max string
	required bool
	blank    bool // the empty string is allowed and means the default
	nonempty bool // of a list
}

func keysOf(t reflect.Type) []key {
	var out []key
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("key")
		if name == "" {
			continue
		}
		flags := "," + f.Tag.Get("is") + ","
		has := func(s string) bool { return strings.Contains(flags, ","+s+",") }
		out = append(out, key{
			name: name, index: i, doc: f.Tag.Get("doc"), fallback: f.Tag.Get("default"),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"),
			required: has("required"), blank: has("blank"), nonempty: has("nonempty"),
		})
	}
	return out
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// decoder fills raw structs from nodes by reflection and reports every mistake.
type decoder struct {
	*report
	without string // a required key that the file may not have, because what it stands for is elsewhere
}

// keys decodes a mapping into the struct v, whose keys must be addressable fields.
func (d *decoder) keys(n *node, v reflect.Value) bool {
	if n.kind != mappingNode {
		return d.mismatch(n, "a mapping")
	}
	before := len(d.mistakes)
	known := keysOf(v.Type())
	seen := map[string]bool{}
	for _, e := range n.entries {
		if d.full() {
			return false
		}
		k, ok := findKey(known, e.key)
		if !ok {
			d.errorf(e.at, "found unknown key %s, expected %s", quote(e.key), suggest(e.key, known))
			continue
		}
		seen[e.key] = true
		v.Field(k.index).Addr().Interface().(anyField).decode(d, e.value, k)
	}
	for _, k := range known {
		if k.required = k.required && k.name != d.without; !seen[k.name] {
			v.Field(k.index).Addr().Interface().(anyField).absent(d, n.at, k)
		}
	}
	return len(d.mistakes) == before
}

func findKey(keys []key, name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// value decodes any node into v and reports whether it is valid.
func (d *decoder) value(n *node, v reflect.Value, k key) bool {
	if n.kind == invalidNode {
		return false
	}
	if v.Type() == reflect.TypeFor[names]() && n.kind != listNode {
		items := []*node{n} // one name stands for a list of one
		if k.blank && n.kind == stringNode && n.text == "" {
			items = nil
		}
		n = &node{kind: listNode, at: n.at, items: items}
	}
	switch {
	case v.Type() == durationType:
		return d.duration(n, v, k)
	case v.Type() == timeType:
		return d.time(n, v)
	case v.Kind() == reflect.Slice:
		return d.list(n, v, k)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return d.textual(n, v, u)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.keys(n, v)
	case reflect.Bool:
		if n.kind != boolNode {
			return d.mismatch(n, "true or false")
		}
		v.SetBool(n.text == "true")
		return true
	case reflect.Int:
		return d.integer(n, v, k)
	case reflect.Float64:
		return d.ratio(n, v, k)
	default:
		return d.str(n, v, k)
	}
}

func (d *decoder) list(n *node, v reflect.Value, k key) bool {
	if n.kind != listNode {
		return d.mismatch(n, expectedOf(v.Type()))
	}
	if k.nonempty && len(n.items) == 0 {
		d.errorf(n.at, "found an empty list, expected at least one entry")
		return false
	}
	before := len(d.mistakes)
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	first := map[string]bool{}
	for i, item := range n.items {
		v.Index(i).Addr().Interface().(anyField).decode(d, item, key{})
		if item.text == "" {
			continue
		}
		if first[item.text] {
			d.errorf(item.at, "found %s a second time in this list, expected it once", quote(item.text))
		}
		first[item.text] = true
	}
	return len(d.mistakes) == before
}
