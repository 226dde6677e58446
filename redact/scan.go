package redact

import (
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/redact/detect"
	"github.com/toolgate/toolgate/redact/known"
)

// DefaultClasses are the classes of personal data that payloads are searched for where a manifest names none: those with check digits
// or a fixed form, which are seldom what a reader of a log looks for.
var DefaultClasses = []string{detect.Card, detect.IBAN, detect.SSN}

// secretsOnly and defaults are the detectors for free text, and for payloads of a Scrubber that names no classes.
var (
	secretsOnly = sync.OnceValue(func() *detect.Set { return mustDetect(nil) })
	defaults    = sync.OnceValue(func() *detect.Set { return mustDetect(DefaultClasses) })
)

func mustDetect(classes []string) *detect.Set {
	s, err := detect.New(detect.Options{PII: classes})
	if err != nil { // the names are this package's own
		panic("redact: " + err.Error())
	}
	return s
}

// detectors returns those that this pass looks with.
func (p *pass) detectors() *detect.Set {
	switch {
	case !p.body:
		return secretsOnly()
	case p.s == nil || p.s.set == nil:
		return defaults()
	}
	return p.s.set
}

var spanBuffers = sync.Pool{New: func() any { return new([]detect.Span) }}

// spans calls find with a buffer for spans, and masks what it found.
func (p *pass) spans(s string, find func(dst []detect.Span, text []byte) []detect.Span) string {
	buf := spanBuffers.Get().(*[]detect.Span)
	found := find((*buf)[:0], readOnly(s))
	*buf = found[:0]
	if len(found) > 0 {
		s = p.cover(s, found)
	}
	spanBuffers.Put(buf)
	return s
}

// held masks the credentials that the process holds.
func (p *pass) held(s string) string {
	if len(s) < known.MinLength {
		return s
	}
	return p.spans(s, func(dst []detect.Span, text []byte) []detect.Span { return KnownSpans(dst, text, live) })
}

// minScanned is the length below which nothing has the form of a secret.
const minScanned = 5

// detect masks what the detectors find; name is the field's, if the text is a field's value.
func (p *pass) detect(s, name string) string {
	if len(s) < minScanned {
		return s
	}
	set := p.detectors()
	return p.spans(s, func(dst []detect.Span, text []byte) []detect.Span { return set.Scan(dst, text, name) })
}

// cover writes a placeholder for each span. Spans may overlap, and come in any order. What a span has of a placeholder is left as it
// is: masking twice changes nothing.
func (p *pass) cover(s string, spans []detect.Span) string {
	slices.SortStableFunc(spans, func(a, b detect.Span) int { return a.Start - b.Start })
	masked := placeholders(s)
	var b strings.Builder
	done := 0
	for _, span := range spans {
		start, end := trim(masked, max(span.Start, done), span.End)
		if start >= end {
			continue
		}
		b.WriteString(s[done:start])
		if span.Start < done && start == done && done > 0 {
			// It overlaps the one before, whose placeholder stands for both.
		} else {
			b.WriteString(p.put(maskOfClass(span.Class), s[start:end]))
		}
		done = end
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// maskOfClass returns the placeholder for a class.
func maskOfClass(class string) string {
	if m := classMasks[class]; m != "" {
		return m
	}
	return "[REDACTED:" + class + "]"
}

var classMasks = func() map[string]string {
	m := map[string]string{}
	for _, mask := range masks {
		m[strings.TrimSuffix(strings.TrimPrefix(mask, "[REDACTED:"), "]")] = mask
	}
	return m
}()

// trim takes off a span what it has of placeholders at its ends.
func trim(masked [][2]int, start, end int) (int, int) {
	for _, m := range masked {
		if m[0] <= start && start < m[1] {
			start = m[1]
		}
	}
	for _, m := range slices.Backward(masked) {
		if m[0] < end && end <= m[1] {
			end = m[0]
		}
	}
	return start, end
}

// placeholders returns where the placeholders of a text stand.
func placeholders(s string) (at [][2]int) {
	for i := 0; ; {
		j := strings.IndexByte(s[i:], '[')
		if j < 0 {
			return at
		}
		i += j
		if n := placeholderLen(s[i:]); n > 0 {
			at = append(at, [2]int{i, i + n})
			i += n - 1
		}
		i++
	}
}
