package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Excerpt is the safe form of a payload's beginning. As a value of slog its text is printed as it is, by Handler as well, which
// need not look for secrets a second time.
type Excerpt struct {
	Status string         // as of Result
	Counts map[string]int // as of Result
	Cut    bool           // the payload goes on where the text ends

	text string
}

// String returns the text.
func (e Excerpt) String() string { return e.text }

// MarshalText returns the text, for what prints it without Handler.
func (e Excerpt) MarshalText() ([]byte, error) { return []byte(e.text), nil }

// Readable reports whether anything of a payload of this media type can be shown.
func Readable(contentType string) bool {
	k, _ := mediaKind(contentType)
	return k != kindOther
}

// Ruleset returns name and version of the rules for vendors' tokens, such as "gitleaks v8.30.1".
func Ruleset() string { return ruleset() }

var ruleset = sync.OnceValue(func() string {
	name, version, _ := strings.Cut(secretsOnly().Rules(), " ")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "github.com/zricethezav/"), "/")
	return name + " " + version
})

// maxExcerpted bounds what is decoded and read for an excerpt.
const maxExcerpted = 64 << 10

// errCut is how a payload ends of which only the beginning is there: an end as such would make a word of it that it is not.
var errCut = errors.New("redact: the payload goes on")

// Excerpt masks the beginning b of a payload, the whole if complete is true, and then cuts it to at most size bytes of text. encoding is
// the Content-Encoding, as Decoded takes it; of what is coded, 64 KiB are decoded. From where it cannot be read, its length and a
// hash stand for it; of what is not whole, the last word, value or line is left out, since it may be half a secret.
func (s *Scrubber) Excerpt(contentType, encoding string, b []byte, complete bool, size int) Excerpt {
	if len(b) == 0 {
		return Excerpt{Status: StatusNone, Cut: !complete}
	}
	plain := encoding == "" || strings.EqualFold(encoding, "identity")
	if plain && complete && len(b) <= size {
		r := s.Body(contentType, b, true)
		text, cut := shorten(escapeHidden(r.Text), size)
		return Excerpt{Status: r.Status, Counts: r.Counts, Cut: cut, text: text}
	}
	p := &pass{s: s, body: true}
	out := &upTo{left: size}
	cut, err := p.excerpt(out, contentType, encoding, b, complete)
	if cut = cut || out.full; !cut && err != nil {
		_, _ = io.WriteString(&out.b, p.fail(b))
	}
	r := p.result("")
	text, short := shorten(escapeHidden(out.b.String()), size)
	return Excerpt{Status: r.Status, Counts: r.Counts, Cut: cut || short, text: text}
}

// excerpt reports whether there is more than was read.
func (p *pass) excerpt(w io.Writer, contentType, encoding string, b []byte, complete bool) (cut bool, err error) {
	in := &beginningOf{in: bytes.NewReader(b), left: maxExcerpted, whole: complete}
	plain, err := Decoded(in, encoding, 0)
	if err != nil {
		return in.cut, err
	}
	out := &beginningOf{in: plain, left: maxExcerpted, whole: true}
	k, boundary := mediaKind(contentType)
	err = p.copy(w, out, k, boundary)
	return in.cut || out.cut, err
}

// beginningOf gives an error where it ends short of the whole.
type beginningOf struct {
	in    io.Reader
	left  int
	whole bool
	cut   bool // that end was reached
}

func (r *beginningOf) Read(p []byte) (int, error) {
	if r.cut {
		return 0, errCut
	}
	n, err := r.in.Read(p)
	if n > r.left {
		n, err = r.left, errCut
	}
	r.left -= n
	if err == io.EOF && !r.whole {
		err = errCut
	}
	r.cut = err == errCut
	return n, err
}

// upTo takes so many bytes and then no more, which ends the masking of what would not be shown.
type upTo struct {
	b    strings.Builder
	left int
	full bool
}

func (w *upTo) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.b.Write(p[:n])
	if w.left -= n; n < len(p) {
		w.full = true
		return n, errCut
	}
	return n, nil
}

// shorten cuts a text that is safe between two characters.
func shorten(s string, size int) (string, bool) {
	if len(s) <= size {
		return s, false
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size], true
}
