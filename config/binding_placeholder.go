package config

import (
	"strings"

	"github.com/toolgate/toolgate/broker"
)

// placeholderText is what a tool sends in the place of a secret.
type placeholderText string

func (placeholderText) pattern() string { return placeholderPattern }
func (placeholderText) shape() string {
	return "a distinctive text of 12 to 128 letters, digits, - and _ such as TOOLGATE_ORDERS_KEY"
}

const placeholderPattern = `^[A-Za-z0-9_-]{12,128}$`

// surface is a part of a request where a placeholder is replaced.
type surface string

func (surface) shape() string {
	return "one of header:NAME, basic, path, query:NAME, json:$.path.to.field"
}

// UnmarshalText checks the form.
func (s *surface) UnmarshalText(b []byte) error {
	_, err := broker.ParseSurface(string(b))
	*s = surface(b)
	return err
}

// placeholders checks the texts that a tool sends in the places of secrets.
func (c *sidecar) placeholders(list []field[rawPlaceholder]) *broker.Placeholders {
	out := &broker.Placeholders{}
	for i, f := range list {
		raw := &f.V
		if raw.Text.ok {
			if err := broker.CheckPlaceholder(string(raw.Text.V)); err != nil {
				c.errorf(raw.Text.at, "found text %s, expected a distinctive one: %v", quote(string(raw.Text.V)), err)
			}
			for _, before := range list[:i] {
				other, own := string(before.V.Text.V), string(raw.Text.V)
				if before.V.Text.ok && (strings.Contains(own, other) || strings.Contains(other, own)) {
					c.errorf(raw.Text.at, "found text %s beside %s, expected placeholders of which none is in another", quote(own), quote(other))
				}
			}
		}
		out.List = append(out.List, broker.Placeholder{Text: string(raw.Text.V), File: c.secretFile(raw.File), Surfaces: plain(raw.In.V)})
	}
	return out
}
