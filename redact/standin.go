package redact

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// StandIns make what is written in place of values that are masked, where a reader of the text has to find something of the same form. The
// classes are those of Result.Counts, and "unparsed" for what could not be read.
type StandIns interface {
	// Text stands for a text. Whatever would need an escape in JSON, a URL or HTML becomes "_".
	Text(class, value string) string
	// JSON stands for a JSON value that is no string, and is one itself.
	JSON(class string, value []byte) []byte
}

// Replacer masks as its Scrubber does, and writes stand-ins in place of placeholders. A parameter of a URL is masked as a form's field is, and
// beyond that where its value is opaque, so that the URL can be asked for again. Like the Scrubber it is safe for concurrent use if its
// StandIns are.
type Replacer struct {
	s  *Scrubber
	in StandIns
}

// Replacer returns a Replacer with these stand-ins.
func (s *Scrubber) Replacer(in StandIns) *Replacer { return &Replacer{s, in} }

func (r *Replacer) pass(size int) *pass {
	return &pass{s: r.s, body: true, marks: &marks{}, allowed: maxDecoded*size + 1<<10}
}

// Body is Scrubber.Coded with stand-ins. The text is empty if the payload as a whole cannot be read; the status says so.
func (r *Replacer) Body(contentType, encoding string, b []byte, complete bool) Result {
	plain, err := decodedBody(encoding, b)
	p := r.pass(len(plain))
	switch {
	case len(b) == 0:
		return p.result("")
	case err != nil, len(plain) > maxBody:
		p.failed = true
		return p.result("")
	}
	text := p.payload(contentType, plain, complete)
	if n, i := markLen(text, 0); n > 0 && n == len(text) && p.marks.all[i].class == classOf(maskUnparsed) {
		p.failed = true
		text = ""
	}
	return p.result(r.resolve(p.marks, text))
}

func decodedBody(encoding string, b []byte) ([]byte, error) {
	in, err := Decoded(bytes.NewReader(b), encoding, min(maxBody, maxGrowth*int64(len(b))))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// URL is a URL, or its path and what follows, with stand-ins. What does not parse is replaced whole.
func (r *Replacer) URL(u string) string {
	p := r.pass(len(u))
	return r.resolve(p.marks, p.urlParts(u))
}

// Header is the value of a header. Values are replaced whole unless the header is harmless by its meaning; schemes of Authorization, and names
// and attributes of cookies, stay.
func (r *Replacer) Header(name, v string) string {
	p := r.pass(len(v))
	return r.resolve(p.marks, p.header(textproto.CanonicalMIMEHeaderKey(name), v))
}

func (p *pass) header(name, v string) string {
	switch {
	case v == "":
		return ""
	case shownHeaders[name] && len(v) <= maxHeaderValue:
		return neutralise(p.leaf(v, "", 0))
	case urlHeaders[name]:
		return p.urlParts(v)
	case name == "Link":
		return p.links(v)
	case name == "Cookie":
		parts := strings.Split(v, ";")
		for i, part := range parts {
			parts[i] = p.cookie(part)
		}
		return strings.Join(parts, "; ")
	case name == "Set-Cookie":
		return p.setCookie(v)
	case strings.HasSuffix(name, "Authorization"):
		n := afterScheme(v, 0)
		return v[:n] + p.put(maskCredential, v[n:])
	}
	return p.put(maskHeader, v)
}

func (p *pass) cookie(part string) string {
	part = strings.TrimSpace(part)
	if masked := cookie(part); masked == placeholder {
		return p.put(maskCredential, part)
	}
	name, value, _ := strings.Cut(part, "=")
	if value == "" {
		return name + "="
	}
	return neutralise(p.str(name, "", 0)) + "=" + p.put(maskCredential, value)
}

func (p *pass) setCookie(v string) string {
	first, rest, _ := strings.Cut(v, ";")
	_, attributes, _ := strings.Cut(setCookie("c=;"+rest), "; ")
	if attributes == "" {
		return p.cookie(first)
	}
	return p.cookie(first) + "; " + neutralise(p.leaf(attributes, "", 0))
}

// linkTargets are the URLs of a Link header (RFC 8288, section 3), by which pages of a list are found.
var linkTargets = regexp.MustCompile(`<[^<>]*>`)

func (p *pass) links(v string) string {
	rest := linkTargets.ReplaceAllString(v, "")
	if strings.Trim(rest, `abcdefghijklmnopqrstuvwxyz=";, `) != "" {
		return p.put(maskHeader, v)
	}
	return linkTargets.ReplaceAllStringFunc(v, func(t string) string { return "<" + p.urlParts(t[1:len(t)-1]) + ">" })
}

// Headers returns h with each value as Header has it, and names that are none as "*".
func (r *Replacer) Headers(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		shown := r.Name(name)
		for _, v := range values {
			out[shown] = append(out[shown], r.Header(name, v))
		}
	}
	return out
}

// Name is a header's name, which may be data.
func (r *Replacer) Name(name string) string {
	p := r.pass(len(name))
	name = headerName(name)
	if p.leaf(name, "", 0) != name {
		return "*"
	}
	return name
}

// urlParts masks a URL by its parts.
func (p *pass) urlParts(u string) string {
	parsed, err := url.Parse(u)
	if err != nil || parsed.Opaque != "" {
		return p.put(maskURL, u)
	}
	rest, fragment, hasFragment := strings.Cut(u, "#")
	rest, query, hasQuery := strings.Cut(p.detect(p.held(rest), ""), "?")
	before, path := "", rest
	if i := strings.Index(rest, "//"); i >= 0 && (i == 0 || rest[i-1] == ':') {
		authority, tail := rest[i+2:], ""
		if j := strings.IndexByte(authority, '/'); j >= 0 {
			authority, tail = authority[:j], authority[j:]
		}
		before, path = rest[:i+2], tail
		at := strings.LastIndexByte(authority, '@')
		if at >= 0 {
			before += p.marks.inForm(p.put("[REDACTED:userinfo]", authority[:at])) + "@"
		}
		before += p.leaf(authority[at+1:], "", 0)
	}
	var b strings.Builder
	b.WriteString(before)
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = p.marks.inForm(p.segment(s))
	}
	b.WriteString(strings.Join(segments, "/"))
	if hasQuery {
		b.WriteByte('?')
		p.query(&b, query)
	}
	if hasFragment {
		b.WriteString("#" + p.putForm(maskURL, fragment))
	}
	return neutralise(b.String())
}

func (p *pass) segment(s string) string {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return p.put(maskURL, s)
	}
	safe := p.str(plain, "", 0)
	if safe == plain {
		return s
	}
	if n := placeholderLen(safe); n == len(safe) {
		return safe
	}
	return url.PathEscape(safe)
}

func (p *pass) query(b *strings.Builder, query string) {
	for query != "" {
		end := strings.IndexAny(query, "&;")
		part, sep := query, ""
		if end >= 0 {
			part, sep = query[:end], query[end:end+1]
		}
		name, value, ok := strings.Cut(part, "=")
		switch {
		case ok && opaque(value) && placeholderLen(value) == 0:
			p.pair(b, name+"=", false)
			b.WriteString(p.putForm(maskURL, value))
		case !ok && opaque(part):
			b.WriteString(p.putForm(maskURL, part))
		default:
			p.pair(b, part, false)
		}
		b.WriteString(sep)
		query = query[len(part)+len(sep):]
	}
}

// minOpaque is the length from which a parameter that is neither number, word nor text is taken for a key.
const minOpaque = 16

// opaque reports whether a parameter's value looks made by a machine, as cursors, signatures and keys do.
func opaque(v string) bool {
	if len(v) < minOpaque {
		return false
	}
	letters, digits := false, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case '0' <= c && c <= '9':
			digits = true
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letters = true
		case strings.IndexByte("-_.~%=/", c) < 0: // "+" is a space, and a text has those
			return false
		}
	}
	return letters && digits
}

// keepType returns the mark of a JSON value whose stand-in is to have its type.
func (w *walk) keepType(mask string, value []byte) string {
	if value[0] == '"' {
		text, _ := jsontext.AppendUnquote(nil, value) // it was read as a string, so an error is only of what is not UTF-8
		return w.put(mask, string(text))
	}
	w.count(mask)
	return w.marks.add(mark{class: classOf(mask), value: string(value), json: true})
}

// number is the mark of a JSON number; what was found in it was marked last.
func (m *marks) number(text string) string {
	class := "field"
	if n := len(m.all); n > 0 {
		class = m.all[n-1].class
	}
	return m.add(mark{class: class, value: text, json: true})
}

// inForm notes that marks of s stand where text is form-encoded, and returns s.
func (m *marks) inForm(s string) string {
	return m.replace(s, func(index int, _, _ string) (string, int, int) {
		m.all[index].form = true
		return markText(m.all[index].class, index), 0, 0
	})
}

var hashed = regexp.MustCompile(`\[unparsed ([0-9]+) bytes hmac=[0-9a-f]+\]`)

// resolve writes the stand-ins. Hashes, whose key other files share, go.
func (r *Replacer) resolve(m *marks, text string) string {
	text = m.replace(text, func(index int, before, after string) (string, int, int) {
		k := &m.all[index]
		if k.json {
			if nested, quote := quotes(before, after); nested >= 0 {
				v := string(r.in.JSON(k.class, []byte(k.value)))
				for range nested {
					v = asString(v)
				}
				return v, quote, quote
			}
		}
		s := harmless(r.in.Text(k.class, k.value))
		if k.form {
			s = url.QueryEscape(s)
		}
		return s, 0, 0
	})
	return hashed.ReplaceAllString(text, "[unparsed $1 bytes]")
}

// harmless takes from a stand-in what would need an escape somewhere.
func harmless(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || strings.ContainsRune(`"'\<>&%`, c) {
			return '_'
		}
		return c
	}, s)
}
