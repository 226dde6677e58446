package broker

import (
	"context"
	"errors"
)

// Static is a secret from a file, re-read when it changes.
type Static struct {
	File   string
	Header string // empty: Authorization
	Prefix string // put before the value, for example "Bearer "
}

func (c *Static) kind() string { return "static" }
func (c *Static) name() string { return "static" }

func (c *Static) copy() settings {
	x := *c
	return &x
}

func (c *Static) bind(bd *Binding, _ *opening) (*bound, error) {
	bd.Static = c
	is, err := newStatic(bd.Name, *c)
	if err != nil {
		return nil, err
	}
	return &bound{issuer: is}, nil
}

// static is the issuer of secrets from files. It is asked for every call, so that a rotated file takes effect at once.
type static struct {
	binding, header, prefix string
	file                    *watched[line]
}

func newStatic(binding string, c Static) (*static, error) {
	header := orElse(c.Header, "Authorization")
	if err := checkHeaderName(header); err != nil {
		return nil, err
	}
	for _, b := range []byte(c.Prefix) {
		if b < ' ' || b >= 0x7f {
			return nil, errors.New("prefix holds a character that no header may carry")
		}
	}
	is := &static{binding, header, c.Prefix, watchLine(c.File)}
	if _, err := is.file.get(); err != nil {
		return nil, fileProblem("static file", c.File, err)
	}
	return is, nil
}

// Issue returns the file's present content.
func (is *static) Issue(ctx context.Context, _ Subject) (*Credential, error) {
	if ctx.Err() != nil {
		return nil, newError(is.binding, Cancelled)
	}
	l, err := is.file.get()
	if err != nil {
		return nil, newError(is.binding, SecretUnreadable)
	}
	return newCredential(Ref{Binding: is.binding, Kind: "static"}, is.header, is.prefix, l.value.Reveal()), nil
}

// Key holds nothing: the file is all that chooses.
func (is *static) Key(Subject) (Key, error) { return Key{Binding: is.binding}, nil }
