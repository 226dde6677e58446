package redact

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// role is what a member says of another one beside it: {"name":"DB_PASSWORD","value":"…"}.
type role uint8

const (
	noRole    role = iota
	nameRole       // its string is the name of a value
	valueRole      // it is the value of a name
)

// roles are by normalised names: those of Kubernetes, HAR, GitLab, AWS and what follows them.
var roles = map[string]role{
	"name": nameRole, "key": nameRole, "header": nameRole, "headername": nameRole, "field": nameRole, "variable": nameRole,
	"parameterkey": nameRole, "parametername": nameRole,
	"value": valueRole, "values": valueRole, "headervalue": valueRole, "parametervalue": valueRole,
}

func roleOf(name string) role {
	if len(name) > maxKey {
		return noRole
	}
	var buf [64]byte
	return roles[string(appendNormal(buf[:0], name))]
}

// label is what a string tells of a value beside it.
type label struct {
	mask string // the placeholder for the value, or ""
	name string // "" unless package detect looks at values differently under it
}

// label returns what the string that was read last tells.
func (w *walk) label() label {
	if w.at-w.tok < 2 || w.at-w.tok > 6*maxName {
		return label{} // too long to be a name, however it is escaped
	}
	raw := w.buf[w.tok+1 : w.at-1]
	if l, ok := w.labels[string(raw)]; ok {
		return l
	}
	text := w.unquoted()
	l := label{mask: w.s.labelMask(text)}
	if l.mask == "" && w.detectors().Tells(text) {
		l.name = text
	}
	if len(raw) <= maxKey && len(w.labels) < maxKeys {
		if w.labels == nil {
			w.labels = map[string]label{}
		}
		w.labels[string(raw)] = l
	}
	return l
}

// labelMask returns the placeholder for the value of a name that is itself a value or a column's head. Unlike a key, such a name is
// prefixed more often than not: DB_PASSWORD, X-Api-Key.
func (s *Scrubber) labelMask(name string) string {
	if mask := s.mask(name); mask != "" || !secretName(name) {
		return mask
	}
	return maskCredential
}

// pair is what the members of one object tell of each other.
type pair struct {
	label
	base   int // where the object's values begin in kept
	values int
}

func (in *pair) learn(l label) {
	if in.mask == "" {
		in.mask = l.mask
	}
	if l.name != "" {
		in.name = l.name
	}
}

// maxValues is how many values of an object may wait for its name. JSON lets a name come twice, but nobody needs that.
const maxValues = 64

// pairName masks a member's value that may be the name of a value.
func (w *walk) pairName(depth int, in *pair) error {
	c, err := w.peek()
	if err != nil {
		return err
	}
	hidden := len(w.place) > 0 && w.atPath()
	if c == '"' && hidden {
		return w.maskName(maskField, in)
	}
	if err := w.value(depth); err != nil {
		return err
	}
	if c == '"' {
		in.learn(w.label())
	}
	return nil
}

// maskName is mask for a string of which the value beside it is the value.
func (w *walk) maskName(with string, in *pair) error {
	_, long, err := w.readString()
	if err != nil {
		return err
	}
	if long == "" {
		in.learn(w.label())
		w.flush(w.tok)
	}
	w.stand(with, w.tok, w.at)
	return nil
}

// pairValue masks the value of a name. It is held until the object ends, as the name may follow.
func (w *walk) pairValue(depth int, in *pair) error {
	c, err := w.peek()
	switch {
	case err != nil:
		return err
	case in.mask != "":
		return w.mask(in.mask)
	case in.values == maxValues:
		return w.mask(maskCredential)
	}
	in.values++
	return w.holdValue(c, depth, in.base)
}

// holdValue masks the value that comes and notes where it stands.
func (w *walk) holdValue(c byte, depth, base int) error {
	i := w.hold(c, base)
	if err := w.value(depth); err != nil {
		return err
	}
	w.ended(i)
	return nil
}

// relabel masks the values that were held since base as their label says, and holds them no longer.
func (w *walk) relabel(base int, l label) {
	if len(w.kept) > base && l != (label{}) {
		w.flush(w.at)
		var was []byte // out from the first value on
		from, done := 0, 0
		for _, h := range w.kept[base:] {
			if h.dead {
				continue
			}
			if was == nil {
				from, done = h.start, h.start
				was = bytes.Clone(w.out[from:])
				w.out = w.out[:from]
			}
			w.out = append(w.out, was[done-from:h.start-from]...)
			w.again(h, was[h.start-from:h.end-from], l)
			done = h.end
		}
		w.out = append(w.out, was[done-from:]...)
	}
	w.drop(base)
}

// again writes a value that was held.
func (w *walk) again(h hold, value []byte, l label) {
	switch {
	case l.mask != "":
		w.stand(l.mask, h.raw, h.rawTo)
		return
	case h.text:
		w.allow()
		text, _ := jsontext.AppendUnquote(nil, value) // it was written as a string
		if safe := w.pass.str(string(text), l.name, w.nesting); safe != string(text) {
			w.quote(safe)
			return
		}
	}
	w.out = append(w.out, value...)
}

// twin is an array of two strings of which the first may be the name of the second: ["X-Api-Key","…"].
type twin struct {
	label
	base int
}

// element masks the nth of an array, of which c is the first byte.
func (w *walk) element(n int, c byte, depth int, t *twin) error {
	switch {
	case c != '"':
		return w.value(depth)
	case n == 0:
		hidden := len(w.place) > 0 && w.atPath()
		err := w.value(depth)
		if err == nil && !hidden {
			t.mask = w.label().mask
		}
		return err
	case n == 1 && t.mask != "":
		return w.holdValue(c, depth, t.base)
	}
	return w.value(depth)
}
