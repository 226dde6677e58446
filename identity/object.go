package identity

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errJSON      = errors.New("not a JSON object")
	errDuplicate = errors.New("an ambiguous JSON object")
)

func jsonError(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return errDuplicate
	}
	return errJSON // err quotes the text
}

// object holds the members of a JSON object, unread.
type object map[string]jsontext.Value

// decoder is a jsontext.Decoder that is used again: a new one costs several allocations for each object.
type decoder struct {
	jsontext.Decoder
	buf bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// begin reads raw in place.
func (d *decoder) begin(raw []byte) {
	d.buf = *bytes.NewBuffer(raw)
	d.Reset(&d.buf)
}

// put gives the decoder back without what it has read.
func (d *decoder) put() {
	d.buf = bytes.Buffer{}
	d.Reset(&d.buf)
	decoders.Put(d)
}

// parseObject refuses duplicate names at any depth, invalid UTF-8 and trailing data. Two readers of such a text may see different values
// in it. The values alias raw.
func parseObject(raw []byte) (object, error) {
	d := decoders.Get().(*decoder)
	defer d.put()
	d.begin(raw)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errJSON
	}
	out := make(object, 16)
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, jsonError(err)
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, jsonError(err)
		}
		end := int(d.InputOffset())
		out[key] = raw[end-len(value) : end : end]
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, errJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errJSON
	}
	return out, nil
}

// hasVariant reports a name that is one of names in another case. encoding/json, and so many a service
// behind us, takes "SUB" for "sub" and lets the last one win.
func (o object) hasVariant(names ...string) bool {
	for name := range o {
		if slices.Contains(names, name) {
			continue
		}
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
	}
	return false
}

// find returns the value at a path such as "act.sub", or nil. Claim names may contain dots themselves
// ("kubernetes.io", "https://example.com/tenant"), so every way to split the path is tried; more than one hit is an error,
// as is a member on the way that is no object.
func (o object) find(path string) (jsontext.Value, error) {
	if o.hasVariant(path) {
		return nil, errDuplicate
	}
	found := o[path]
	for at, c := range path {
		if c != '.' {
			continue
		}
		value, err := o.descend(path[:at], path[at+1:])
		if err != nil {
			return nil, err
		}
		if value != nil && found != nil {
			return nil, errDuplicate
		}
		if value != nil {
			found = value
		}
	}
	return found, nil
}

func (o object) descend(name, rest string) (jsontext.Value, error) {
	if o.hasVariant(name) {
		return nil, errDuplicate
	}
	member := o[name]
	if member == nil {
		return nil, nil
	}
	inner, err := parseObject(member)
	if err != nil {
		return nil, err
	}
	return inner.find(rest)
}

// elements returns the elements of a JSON array, unread.
func elements(v jsontext.Value) ([]jsontext.Value, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	var out []jsontext.Value
	for d.PeekKind() != ']' {
		e, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		out = append(out, e.Clone())
	}
	return out, true
}
