package redact

import (
	"bytes"
	"mime"
	"net/url"
	"strings"
)

// maxBody is the largest payload that is read; a longer one is replaced whole.
const maxBody = 4 << 20

// Body returns the safe form of a payload of this media type. complete is false when b is only the beginning.
// JSON is masked by field, line by line for NDJSON, and so are forms, multipart bodies and the data of event streams; text by
// what it looks like. Any other type, and JSON that does not parse, become "[unparsed N bytes hmac=…]". Whitespace between JSON
// tokens is not kept.
func (s *Scrubber) Body(contentType string, b []byte, complete bool) Result {
	p := &pass{s: s, body: true, allowed: maxDecoded*len(b) + 1<<10}
	if len(b) == 0 {
		return p.result("")
	}
	if len(b) > maxBody {
		return p.result(p.fail(b))
	}
	return p.result(p.payload(contentType, b, complete))
}

// payload masks one by its type. Nothing of one that cannot be read is shown.
func (p *pass) payload(contentType string, b []byte, complete bool) string {
	k, boundary := mediaKind(contentType)
	switch k {
	case kindJSON:
		// A cut JSON value cannot be told from a malformed one, and fails to parse. A number cut in two would parse.
		if !complete {
			return p.fail(b)
		}
		return p.value(b)
	case kindLines:
		return p.lines(b, complete)
	case kindForm:
		return p.form(string(b), complete)
	case kindText, kindTable, kindEvents, kindParts:
		if !complete {
			return p.fail(b)
		}
		var out strings.Builder
		if err := p.copy(&out, bytes.NewReader(b), k, boundary); err != nil {
			return p.fail(b)
		}
		return out.String()
	}
	return p.fail(b)
}

type kind int

const (
	kindOther kind = iota
	kindJSON
	kindLines
	kindForm
	kindText
	kindTable
	kindEvents
	kindParts
)

// mediaKind returns how to read this media type, and a multipart's boundary.
func mediaKind(contentType string) (k kind, boundary string) {
	if contentType == "application/json" { // which nearly every one is
		return kindJSON, ""
	}
	t, params, err := mime.ParseMediaType(contentType)
	if err != nil && t == "" {
		if strings.TrimSpace(contentType) == "" {
			return kindJSON, "" // unlabelled: shown if it parses
		}
		return kindOther, ""
	}
	switch {
	case t == "application/json", t == "text/json", strings.HasSuffix(t, "+json"):
		return kindJSON, ""
	case t == "application/x-ndjson", t == "application/ndjson", t == "application/jsonl", t == "application/x-jsonlines",
		t == "application/json-seq":
		return kindLines, ""
	case t == "application/x-www-form-urlencoded":
		return kindForm, ""
	case t == "text/event-stream":
		return kindEvents, ""
	case strings.HasPrefix(t, "multipart/") && params["boundary"] != "":
		return kindParts, params["boundary"]
	case tables[t] && params["header"] != "absent": // RFC 4180, section 3
		return kindTable, ""
	case strings.HasPrefix(t, "text/"), tables[t], t == "application/xml", strings.HasSuffix(t, "+xml"), t == "application/yaml",
		t == "application/graphql", t == "application/javascript":
		return kindText, ""
	}
	return kindOther, ""
}

// tables are the types of text that has columns.
var tables = map[string]bool{"text/csv": true, "text/x-csv": true, "application/csv": true, "application/x-csv": true,
	"text/comma-separated-values": true, "text/tab-separated-values": true}

// value masks one JSON text.
func (p *pass) value(b []byte) string {
	out, err := p.jsonString(b)
	if err != nil {
		return p.fail(b)
	}
	return out
}

// lines masks each line for itself, so that one bad line hides only itself. RFC 7464 puts a record separator before
// each value.
func (p *pass) lines(b []byte, complete bool) string {
	var out strings.Builder
	for line := range bytes.Lines(b) {
		whole := complete || line[len(line)-1] == '\n'
		text := bytes.Trim(line, "\x1e \t\r\n")
		switch {
		case len(text) == 0:
			continue
		case !whole:
			out.WriteString(p.fail(text))
		default:
			out.WriteString(p.value(text))
		}
		out.WriteByte('\n')
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// form masks "name=value&…". Both "&" and ";" separate, as servers differ.
func (p *pass) form(s string, complete bool) string {
	var out strings.Builder
	for len(s) > 0 {
		end := strings.IndexAny(s, "&;")
		last := end < 0
		if last {
			end = len(s)
		}
		p.pair(&out, s[:end], last && !complete)
		if last {
			break
		}
		out.WriteByte(s[end])
		s = s[end+1:]
	}
	return out.String()
}

func (p *pass) pair(out *strings.Builder, pair string, cut bool) {
	rawName, rawValue, hasValue := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil || cut {
		out.WriteString(p.fail([]byte(pair)))
		return
	}
	out.WriteString(p.formText(rawName, name, ""))
	if !hasValue {
		return
	}
	out.WriteByte('=')
	if mask := p.formMask(name); mask != "" {
		out.WriteString(p.putForm(mask, rawValue))
		return
	}
	value, err := url.QueryUnescape(rawValue)
	if err != nil {
		out.WriteString(p.fail([]byte(rawValue)))
		return
	}
	out.WriteString(p.formText(rawValue, value, name))
}

// formText returns raw if its decoded text is harmless, and else the masked text, encoded again.
func (p *pass) formText(raw, text, name string) string {
	if n := placeholderLen(raw); n > 0 && n == len(raw) {
		return p.marks.inForm(raw)
	}
	if safe := p.str(text, name, 0); safe != text {
		if n := placeholderLen(safe); n == len(safe) && p.marks != nil {
			return p.marks.inForm(safe)
		}
		return url.QueryEscape(safe)
	}
	return neutralise(raw)
}

// formMask looks at the whole name and at each part of a nested one: user[customer_email], user.password.
func (p *pass) formMask(name string) string {
	if mask := p.s.mask(name); mask != "" {
		return mask
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' }) {
		if mask := p.s.mask(part); mask != "" {
			return mask
		}
	}
	return ""
}
