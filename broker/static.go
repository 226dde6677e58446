package broker

import (
	"context"
	"errors"
)

// Static is a secret from files, re-read when they change. It goes into a header, unless Query or Basic says otherwise.
type Static struct {
	File   string
	Header string // empty: Authorization
	Prefix string // put before the value, for example "Bearer "
	Query  string // name of the query parameter that carries it
	Basic  *Basic // in place of File: user and password
}

// Basic is the user and the password of RFC 7617.
type Basic struct {
	Username     string // no secret; this or UsernameFile
	UsernameFile string
	PasswordFile string // empty: no password, for upstreams whose key is the user of UsernameFile
}

func (c *Static) kind() string { return "static" }
func (c *Static) name() string { return "static" }

func (c *Static) copy() settings {
	x := *c
	if c.Basic != nil {
		basic := *c.Basic
		x.Basic = &basic
	}
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
	binding string
	slot    slot
	file    *watched[line] // nil with basic
	basic   *basicFiles    // nil without
}

func newStatic(binding string, c Static) (*static, error) {
	is := &static{binding: binding, slot: slot{header: c.Header, prefix: c.Prefix, query: c.Query, basic: c.Basic != nil}}
	if err := is.slot.check(); err != nil {
		return nil, err
	}
	if c.Basic != nil {
		if c.File != "" {
			return nil, errors.New("basic has files of its own")
		}
		var err error
		is.basic, err = openBasic(*c.Basic)
		return is, err
	}
	is.file = watchLine(c.File)
	if _, err := is.file.get(); err != nil {
		return nil, fileProblem("static file", c.File, err)
	}
	return is, nil
}

// Issue returns the files' present content.
func (is *static) Issue(ctx context.Context, _ Subject) (*Credential, error) {
	if ctx.Err() != nil {
		return nil, newError(is.binding, Cancelled)
	}
	ref := Ref{Binding: is.binding, Kind: "static"}
	if is.basic != nil {
		user, password, err := is.basic.get()
		if err != nil {
			return nil, newError(is.binding, SecretUnreadable)
		}
		return newBasic(ref, user, password), nil
	}
	l, err := is.file.get()
	if err != nil {
		return nil, newError(is.binding, SecretUnreadable)
	}
	return is.slot.credential(ref, l.value.Reveal()), nil
}

// Key holds nothing: the files are all that chooses.
func (is *static) Key(Subject) (Key, error) { return Key{Binding: is.binding}, nil }
