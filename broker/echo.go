package broker

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/redact"
	"github.com/toolgate/toolgate/redact/detect"
	"github.com/toolgate/toolgate/redact/known"
)

// echoSet finds what an upstream must not hand to the tool. It is made when it is needed first, for all copies of a credential.
type echoSet struct {
	once sync.Once
	set  *known.Set
}

// watched makes the credential's values known to the logs for as long as it is held, and returns it.
func (c *Credential) watched() *Credential {
	redact.Live(c.value)
	for _, e := range c.echoes {
		redact.Live(e)
	}
	c.seen = new(echoSet)
	return c
}

// echo returns the set of the credential's values. It is its own, not one of all credentials: a tool must not learn, by what is
// masked, whether a value is another tool's.
func (c *Credential) echo() *known.Set {
	seen := c.seen
	if seen == nil {
		seen = new(echoSet)
	}
	seen.once.Do(func() {
		seen.set = known.New()
		seen.set.Add(c.value)
		for _, e := range c.echoes {
			seen.set.Add(e)
		}
	})
	return seen.set
}

const echoed = "[REDACTED:credential]"

// ScrubHeader replaces the credential's values, in each form that package known knows, wherever they stand in the header values
// of a response, leaves out fields whose name has one of them in it, and returns how often it did either.
func (c *Credential) ScrubHeader(h http.Header) int {
	if len(h) == 0 {
		return 0
	}
	n, set := c.dropNames(h), c.echo()
	var spans []detect.Span
	text := make([]byte, 0, 64) // a field's value, for all of them
	for _, values := range h {
		for i, v := range values {
			if len(v) < known.MinLength { // no form is shorter than its secret
				continue
			}
			text = append(text[:0], v...)
			if spans = redact.KnownSpans(spans[:0], text, set); len(spans) > 0 {
				var m int
				values[i], m = cover(v, spans)
				n += m
			}
		}
	}
	n += scrubShort(h, c.value)
	for _, e := range c.echoes {
		n += scrubShort(h, e)
	}
	return n
}

// dropNames leaves out fields that tell a value by their name. Nothing that looks like a name could stand in its place.
func (c *Credential) dropNames(h http.Header) int {
	longest := 0
	for name := range h {
		longest = max(longest, len(name))
	}
	forms := appendNames(nil, c.value, longest)
	for _, e := range c.echoes {
		forms = appendNames(forms, e, longest)
	}
	if len(forms) == 0 {
		return 0
	}
	n := 0
	for name := range h {
		if lower := strings.ToLower(name); slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(lower, f) }) {
			delete(h, name)
			n++
		}
	}
	return n
}

// appendNames appends what a secret looks like in a field's name of up to longest bytes, in lower case: names lose theirs on the way (RFC 9110,
// section 5.1), so that none of the forms is found as it was. They are those whose characters a name may have.
func appendNames(forms []string, s redact.Secret, longest int) []string {
	secret := s.Reveal()
	if len(secret) < known.MinLength || len(secret) > longest {
		return forms
	}
	for _, f := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
		forms = append(forms, strings.ToLower(f))
	}
	return forms
}

// cover writes one placeholder for spans that overlap or touch at both ends.
func cover(v string, spans []detect.Span) (string, int) {
	slices.SortFunc(spans, func(a, b detect.Span) int { return a.Start - b.Start })
	var b strings.Builder
	done, n := 0, 0
	for _, s := range spans {
		if s.Start >= done {
			b.WriteString(v[done:s.Start] + echoed)
			n++
		}
		done = max(done, s.End)
	}
	return b.String() + v[done:], n
}

// scrubShort replaces a value that is too short to be looked for in its forms.
func scrubShort(h http.Header, s redact.Secret) int {
	secret, n := s.Reveal(), 0
	if secret == "" || len(secret) >= known.MinLength && len(secret) <= known.MaxLength {
		return 0
	}
	for _, values := range h {
		for i, v := range values {
			if m := strings.Count(v, secret); m > 0 {
				values[i] = strings.ReplaceAll(v, secret, echoed)
				n += m
			}
		}
	}
	return n
}

// ScrubBody returns a reader that gives a response's body with the credential's values masked, in each form that package known
// knows, at the same length. A compressed body hides what it repeats: take off its codings before.
func (c *Credential) ScrubBody(r io.Reader) io.Reader { return redact.MaskKnown(r, c.echo()) }

// ScrubPieces is ScrubBody for whoever is handed the pieces, such as the payloads of frames.
func (c *Credential) ScrubPieces() *redact.KnownMask { return redact.NewKnownMask(c.echo()) }
