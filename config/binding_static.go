package config

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/broker"
)

// static checks a secret from files.
func (c *sidecar) static(f field[rawStatic]) *broker.Static {
	raw := &f.V
	c.slot(raw.Header, raw.Prefix, raw.Query, raw.Basic.present)
	out := &broker.Static{Header: string(raw.Header.V), Prefix: raw.Prefix.V, Query: string(raw.Query.V)}
	if raw.Basic.present && raw.File.present {
		c.errorf(raw.File.at, "found file beside basic, expected one of them: basic has files of its own")
	}
	switch {
	case raw.Basic.present:
		out.Basic = c.basic(raw.Basic)
	case !raw.File.present:
		c.errorf(f.at, "found a static credential without file, expected file or basic")
	default:
		out.File = c.secretFile(raw.File)
	}
	return out
}

// slot checks where on a request a secret is to go.
func (c *sidecar) slot(header field[headerName], prefix field[string], query field[parameterName], basic bool) {
	if header.ok && reservedHeaders[textproto.CanonicalMIMEHeaderKey(string(header.V))] {
		c.errorf(header.at, "found header %s, expected one that is a request's own and not the connection's", quote(string(header.V)))
	}
	if strings.ContainsFunc(prefix.V, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.errorf(prefix.at, "found prefix %s, expected printable ASCII", quote(prefix.V))
	}
	if slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(prefix.V)) {
		c.warnf(prefix.at, "prefix %s does not end in a space: the secret follows at once", quote(prefix.V))
	}
	for _, k := range []struct {
		name    string
		at      mark
		present bool
	}{{"header", header.at, header.present}, {"prefix", prefix.at, prefix.V != ""}, {"query", query.at, query.present}} {
		switch {
		case k.present && basic:
			c.errorf(k.at, "found %s beside basic, expected none: Basic is the Authorization header", k.name)
		case k.present && query.present && k.name != "query":
			c.errorf(k.at, "found %s beside query, expected one place for the secret", k.name)
		}
	}
}

func (c *sidecar) basic(f field[rawBasic]) *broker.Basic {
	raw := &f.V
	if f.ok && raw.Username.present == raw.UsernameFile.present {
		c.errorf(f.at, "found a basic with both or neither of username and usernameFile, expected one of them")
	}
	if f.ok && !raw.PasswordFile.present && !raw.UsernameFile.present {
		c.errorf(f.at, "found no passwordFile, expected it, or usernameFile for a user that is the secret")
	}
	return &broker.Basic{Username: raw.Username.V, UsernameFile: c.secretFile(raw.UsernameFile), PasswordFile: c.secretFile(raw.PasswordFile)}
}
