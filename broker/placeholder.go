package broker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/redact"
)

// Placeholders are texts that a tool sends where secrets belong. Each is replaced where its surfaces say, and a request that
// holds one anywhere else is refused.
type Placeholders struct{ List []Placeholder }

// Placeholder is one text and the file with the secret that takes its place, re-read when it changes.
type Placeholder struct {
	Text     string // 12 to 128 of A-Z, a-z, 0-9, - and _: the same in every encoding
	File     string
	Surfaces []string // see ParseSurface
}

func (c *Placeholders) kind() string { return "placeholder" }
func (c *Placeholders) name() string { return "placeholders" }

func (c *Placeholders) copy() settings {
	x := &Placeholders{slices.Clone(c.List)}
	for i := range x.List {
		x.List[i].Surfaces = slices.Clone(x.List[i].Surfaces)
	}
	return x
}

func (c *Placeholders) bind(bd *Binding, _ *opening) (*bound, error) {
	bd.Placeholders = c
	is, err := newPlaceholders(bd.Name, *c)
	if err != nil {
		return nil, err
	}
	return &bound{issuer: is}, nil
}

// placeholders is the issuer of what takes the places of placeholders. It is asked for every call.
type placeholders struct {
	binding string
	list    []placeholder
	hint    string // where each is replaced
}

type placeholder struct {
	text     string
	file     *watched[line]
	surfaces []Surface
}

func newPlaceholders(binding string, c Placeholders) (*placeholders, error) {
	if len(c.List) == 0 {
		return nil, errors.New("placeholders names none")
	}
	is := &placeholders{binding: binding}
	for i, p := range c.List {
		if err := CheckPlaceholder(p.Text); err != nil {
			return nil, err
		}
		for _, other := range c.List[:i] {
			if strings.Contains(other.Text, p.Text) || strings.Contains(p.Text, other.Text) {
				return nil, fmt.Errorf("placeholders %q and %q: the one is in the other", other.Text, p.Text)
			}
		}
		own := placeholder{text: p.Text, file: watchLine(p.File)}
		if len(p.Surfaces) == 0 {
			return nil, fmt.Errorf("placeholder %q is replaced nowhere", p.Text)
		}
		for _, text := range p.Surfaces {
			s, err := ParseSurface(text)
			if err != nil {
				return nil, err
			}
			own.surfaces = append(own.surfaces, s)
		}
		if _, err := own.file.get(); err != nil {
			return nil, fileProblem("placeholder file", p.File, err)
		}
		is.list = append(is.list, own)
	}
	var where []string
	for _, p := range is.list {
		var names []string
		for _, s := range p.surfaces {
			names = append(names, s.text)
		}
		where = append(where, p.text+" in "+strings.Join(names, ", "))
	}
	is.hint = strings.Join(where, "; ")
	_, err := is.values()
	return is, err
}

// CheckPlaceholder refuses texts that could stand in a request by chance, or that some encoding changes.
func CheckPlaceholder(text string) error {
	for _, c := range []byte(text) {
		if !unreserved(c) || c == '.' || c == '~' {
			return fmt.Errorf("placeholder %q has other characters than letters, digits, - and _", text)
		}
	}
	if len(text) < 12 || len(text) > 128 {
		return fmt.Errorf("placeholder %q is not of 12 to 128 characters", text)
	}
	distinct := map[rune]bool{}
	for _, c := range text {
		distinct[c] = true
	}
	if len(distinct) < 6 {
		return fmt.Errorf("placeholder %q has fewer than 6 different characters, and could stand in a request by chance", text)
	}
	return nil
}

// values reads the files. A secret that holds a placeholder could be replaced in its turn.
func (is *placeholders) values() ([]string, error) {
	values := make([]string, len(is.list))
	for i, p := range is.list {
		l, err := p.file.get()
		if err != nil {
			return nil, fileProblem("placeholder file", p.file.path, err)
		}
		values[i] = l.value.Reveal()
		for _, other := range is.list {
			if strings.Contains(values[i], other.text) {
				return nil, fmt.Errorf("placeholder file %s: holds a placeholder", p.file.path)
			}
		}
	}
	return values, nil
}

// Issue returns what the files hold now.
func (is *placeholders) Issue(ctx context.Context, _ Subject) (*Credential, error) {
	if ctx.Err() != nil {
		return nil, newError(is.binding, Cancelled)
	}
	values, err := is.values()
	if err != nil {
		return nil, newError(is.binding, SecretUnreadable)
	}
	put := &replacing{}
	var echoes []string
	for i, p := range is.list {
		put.list = append(put.list, replacement{p.text, redact.New(values[i]), p.surfaces})
		echoes = append(append(echoes, values[i]), p.echoes(values[i])...)
	}
	return (&Credential{
		ref: Ref{Binding: is.binding, Kind: "placeholder"}, put: put,
		value: redact.New(values[0]), hint: &is.hint, echoes: secrets(echoes, values[0]),
	}).watched(), nil
}

// echoes returns the further forms in which a value leaves.
func (p *placeholder) echoes(value string) (out []string) {
	for _, s := range p.surfaces {
		switch s.kind {
		case inPathSurface, inQuerySurface:
			out = append(out, escapes(value)...)
		case inBasicSurface:
			out = append(out, base64Cores(value)...)
		case inJSONSurface:
			if quoted, err := jsontext.AppendQuote(nil, value); err == nil {
				out = append(out, string(quoted[1:len(quoted)-1]))
			}
		}
	}
	return out
}

// base64Cores returns what a value looks like within the base64 of something longer, which begins at one of three phases. The
// characters at its ends depend on its neighbours and are left out.
func base64Cores(value string) (out []string) {
	for phase := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", phase) + value))
		from := []int{0, 2, 3}[phase]
		to := (phase + len(value)) * 8 / 6 // whole characters that are the value's alone
		if to > from {
			out = append(out, text[from:to])
		}
	}
	return out
}

// Key holds nothing: the files are all that chooses.
func (is *placeholders) Key(Subject) (Key, error) { return Key{Binding: is.binding}, nil }

// Surface is a part of a request where a placeholder is replaced.
type Surface struct {
	kind surfaceKind
	name string     // of a header in canonical spelling, or of a query parameter
	path []jsonStep // of a JSON field
	text string     // as in the configuration
}

type surfaceKind uint8

const (
	inHeaderSurface surfaceKind = iota + 1
	inBasicSurface
	inPathSurface
	inQuerySurface
	inJSONSurface
)

// ParseSurface reads one of
//
//	header:NAME   the values of a header
//	basic         user and password in an Authorization header of scheme Basic
//	path          the path
//	query:NAME    the values of a query parameter
//	json:$.a.b    a string in a JSON body, by its names; [0] and [*] are an entry and all entries of a list
func ParseSurface(text string) (Surface, error) {
	kind, rest, named := strings.Cut(text, ":")
	s := Surface{name: rest, text: text}
	var err error
	switch {
	case kind == "header" && named:
		s.kind, s.name, err = inHeaderSurface, http.CanonicalHeaderKey(rest), checkHeaderName(rest)
	case text == "basic":
		s.kind = inBasicSurface
	case text == "path":
		s.kind = inPathSurface
	case kind == "query" && named:
		s.kind, err = inQuerySurface, checkQueryName(rest)
	case kind == "json" && named:
		s.kind = inJSONSurface
		s.path, err = parseJSONPath(rest)
	default:
		err = fmt.Errorf("no surface is called %q", text)
	}
	return s, err
}
