package config

import (
	"reflect"
	"strings"
)

// settingAt returns the place in the file of the setting that an error of the broker names, or else of the binding's
// credential. The broker names settings by their keys, the outer before the inner, as in "clientAuth keyFile /etc/key: is empty".
func settingAt(raw *rawBinding, err error) mark {
	binding := reflect.ValueOf(raw).Elem()
	var at mark
	for _, kind := range keysOf(binding.Type()) {
		if kind.name == "name" || kind.name == "tools" || kind.name == "targets" {
			continue
		}
		inner, place, there := below(binding, kind.name)
		if there && at.line == 0 {
			at = place
		}
		for word := range strings.FieldsSeq(err.Error()) {
			if next, place, there := below(inner, strings.Trim(word, `":;,`)); there {
				at, inner = place, next
			}
		}
	}
	return at
}

// below returns the value and the place of a key of the mapping v, if v is one and the file has that key.
func below(v reflect.Value, name string) (inner reflect.Value, at mark, there bool) {
	if v.Kind() != reflect.Struct {
		return inner, at, false
	}
	for _, k := range keysOf(v.Type()) {
		if f := v.Field(k.index); k.name == name {
			at, there = f.Addr().Interface().(anyField).place()
			return f.FieldByName("V"), at, there
		}
	}
	return inner, at, false
}
