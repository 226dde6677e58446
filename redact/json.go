package redact

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

const maxDepth = 128 // arrays and objects

// jsonOptions accept what lenient servers accept: a key given twice, of which any may count, and bytes that are not
// UTF-8, which come out as U+FFFD.
var jsonOptions = jsontext.Options(jsontext.AllowDuplicateNames(true))

// json masks one JSON text; nesting says how many strings it was found inside of. What it returns may be a part of in.
func (p *pass) json(in []byte, nesting int) ([]byte, error) {
	w := walk{pass: p, nesting: nesting, reader: reader{buf: in}}
	if err := w.document(); err != nil {
		return nil, err
	}
	if w.out == nil {
		return in[w.from:w.to], nil
	}
	return w.out, nil
}

// jsonString is json for a text whose masked form is kept. It copies it once.
func (p *pass) jsonString(in []byte) (string, error) {
	w := walk{pass: p, reader: reader{buf: in}}
	if err := w.document(); err != nil {
		return "", err
	}
	if w.out == nil {
		return string(in[w.from:w.to]), nil
	}
	return unsafe.String(unsafe.SliceData(w.out), len(w.out)), nil // nobody else has it
}

// walk is one JSON text under way.
type walk struct {
	*pass
	reader
	nesting  int
	key      *key     // the member whose value comes, or whose elements come; nil before the first
	place    []string // where the value stands, if there are paths to compare it with
	from, to int      // where the value stands, if all of it was there at once
	credit   int      // up to where of a stream bytes were counted as allowed
}

// document masks the one value that there is.
func (w *walk) document() error {
	if _, err := w.peek(); err != nil {
		return err
	}
	w.from = w.at
	if err := w.value(0); err != nil {
		return err
	}
	if w.src != nil || w.out != nil {
		w.flush(w.at)
	}
	w.to, w.done = w.at, w.at
	return w.end()
}

// value masks the value that comes next, within so many arrays and objects.
func (w *walk) value(depth int) error {
	c, err := w.peek()
	if err != nil {
		return err
	}
	if len(w.place) > 0 && w.atPath() {
		return w.mask(maskField)
	}
	switch c {
	case '{':
		return w.object(depth)
	case '[':
		return w.array(depth)
	case '"':
		return w.text()
	case 't', 'f', 'n':
		return w.readLiteral()
	}
	return w.figure()
}

func (w *walk) object(depth int) error {
	if depth == maxDepth {
		return errDepth
	}
	w.at++
	c, err := w.peek()
	if err != nil {
		return err
	}
	if c == '}' {
		w.at++
		return nil
	}
	in := pair{base: len(w.kept)}
	for {
		if c != '"' {
			return errJSON
		}
		if err := w.member(depth, &in); err != nil {
			return err
		}
		if c, err = w.peek(); err != nil {
			return err
		}
		w.at++
		switch c {
		case '}':
			if len(w.kept) > in.base {
				w.relabel(in.base, in.label)
			}
			return nil
		case ',':
			c, err = w.peek()
		default:
			return errJSON
		}
		if err != nil {
			return err
		}
	}
}

// member masks a name, which can be data and hold a secret itself, and its value: whole if the name tells to.
func (w *walk) member(depth int, in *pair) error {
	k, err := w.named()
	if err != nil {
		return err
	}
	w.key = k
	if err := w.expect(':'); err != nil {
		return err
	}
	if k.mask != "" {
		switch c, err := w.peek(); {
		case err != nil:
			return err
		case c == '"' && k.role == nameRole:
			return w.maskName(k.mask, in)
		}
		return w.mask(k.mask)
	}
	if w.hasPaths() {
		w.place = append(w.place, k.text)
		defer func() { w.place = w.place[:len(w.place)-1] }()
	}
	switch k.role {
	case nameRole:
		return w.pairName(depth+1, in)
	case valueRole:
		return w.pairValue(depth+1, in)
	}
	return w.value(depth + 1)
}

func (w *walk) array(depth int) error {
	if depth == maxDepth {
		return errDepth
	}
	w.at++
	c, err := w.peek()
	if err != nil {
		return err
	}
	if w.opened(c); c == ']' {
		w.at++
		return nil
	}
	t := twin{base: len(w.kept)}
	for n := 0; ; n++ {
		if w.hasPaths() {
			w.place = append(w.place, strconv.Itoa(n))
		}
		if err := w.element(n, c, depth+1, &t); err != nil {
			return err
		}
		if w.hasPaths() {
			w.place = w.place[:len(w.place)-1]
		}
		if c, err = w.peek(); err != nil {
			return err
		}
		w.at++
		switch c {
		case ']':
			if len(w.kept) > t.base {
				w.relabel(t.base, t.label)
			}
			return nil
		case ',':
			if len(w.kept) > t.base {
				w.drop(t.base)
			}
			c, err = w.peek()
		default:
			return errJSON
		}
		if err != nil {
			return err
		}
	}
}

func (w *walk) hasPaths() bool { return w.s != nil && len(w.s.paths) > 0 }

// mask puts a placeholder in the place of the value that comes.
func (w *walk) mask(with string) error {
	start := w.tok
	if err := w.skipValue(); err != nil {
		return err
	}
	w.stand(with, start, w.at)
	return nil
}

// stand writes what stands for the value that was read at this place.
func (w *walk) stand(with string, from, to int) {
	if w.marks != nil && w.src == nil { // of a stream the value is not there any more, and has no stand-ins
		w.quote(w.keepType(with, w.buf[from:to]))
		return
	}
	w.quote(w.count(with))
}

// text masks a string that is a value.
func (w *walk) text() error {
	s, long, err := w.readString()
	if err != nil {
		return err
	}
	name := ""
	if w.key != nil {
		name = w.key.text
	}
	switch {
	case long != "":
		w.failed = true
		w.quote(long)
	case w.joins != nil && w.nesting == 0 && pieceNames[name]:
		w.replace(w.joins.push(w.pass, w.unquoted()))
	case s&signOdd == 0:
		w.judge(w.quick(w.buf[w.tok+1:w.at-1], s, w.key), s, name)
	default:
		w.judge(unsure, s, name)
	}
	return nil
}

// judge masks the string that was read as a verdict says.
func (w *walk) judge(v verdict, s sign, name string) {
	switch v {
	case quiet:
	case covered:
		w.replace(w.cover(w.unquoted(), w.found))
	default:
		w.allow()
		text := w.unquoted()
		if safe := w.pass.str(text, name, w.nesting); s&signOdd != 0 || safe != text {
			w.replace(safe)
		}
	}
}

// unquoted returns the string that was read. What is not UTF-8 is U+FFFD in it.
func (w *walk) unquoted() string {
	raw := w.buf[w.tok+1 : w.at-1]
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	text, _ := jsontext.AppendUnquote(nil, w.buf[w.tok:w.at]) // it was read as a string, so an error is only of what is not UTF-8
	return string(text)
}

// allow counts what came of a stream, of which so much more may be decoded.
func (w *walk) allow() {
	if at := w.gone + w.at; w.src != nil {
		w.allowed += (maxDecoded + 4) * (at - w.credit)
		w.credit = at
	}
}

// minNumber is the length of a number that can be a card's or a person's.
const minNumber = 9

// figure masks a number.
func (w *walk) figure() error {
	if err := w.readNumber(); err != nil {
		return err
	}
	raw := w.buf[w.tok:w.at]
	if len(raw) < minNumber || w.find(raw, w.key) == quiet {
		return nil
	}
	name := ""
	if w.key != nil {
		name = w.key.text
	}
	text := string(raw)
	if safe := w.detect(w.held(text), name); safe != text {
		if w.marks != nil {
			safe = w.marks.number(text)
		}
		w.replace(safe)
	}
	return nil
}

// str masks a string of a payload, whose field has this name: another JSON text inside it, or what is secret by its shape.
func (p *pass) str(s, name string, nesting int) string {
	if n := placeholderLen(s); n > 0 && n == len(s) {
		return s
	}
	switch first, last := ends(s); {
	case first == '{' && last == '}', first == '[' && last == ']', first == '"' && last == '"' && strings.Contains(s, `\`):
		if nesting >= maxNesting {
			if looksJSON(s) || jsontext.Value(s).IsValid(jsonOptions, jsontext.AllowInvalidUTF8(true)) {
				return p.put(maskEncoded, s)
			}
			break
		}
		inner := p.within()
		out, err := inner.json(readOnly(s), nesting+1)
		p.decoded = inner.decoded
		if err == nil {
			return p.nested(s, out, inner)
		}
		if looksJSON(s) {
			return p.fail([]byte(s))
		}
	case (first == '{' || first == '[') && looksJSON(s):
		return p.fail([]byte(s)) // cut: the key that names a secret may stand in it
	}
	if encodedJSON(s) {
		return p.put(maskEncoded, s)
	}
	return escapeHidden(p.leaf(s, name, nesting))
}

// leaf masks a text that is no container: what is known, then what is encoded in it, then what is secret by its shape.
func (p *pass) leaf(s, name string, nesting int) string {
	s = p.held(s)
	s = p.layers(s, name, nesting)
	s = p.text(s)
	s = p.places(s, name)
	return p.detect(s, name)
}

// nested keeps the text as it was, whitespace and all, where nothing in it was masked.
func (p *pass) nested(s string, masked []byte, inner *pass) string {
	p.failed = p.failed || inner.failed
	if len(inner.counts) == 0 && !inner.failed {
		return escapeHidden(s)
	}
	p.add(inner)
	return escapeHidden(string(masked))
}

// add takes over what another pass counted.
func (p *pass) add(inner *pass) {
	p.failed = p.failed || inner.failed
	for class, n := range inner.counts {
		if p.counts == nil {
			p.counts = map[string]int{}
		}
		p.counts[class] += n
	}
}

// ends returns the first and the last byte that are not JSON whitespace.
func ends(s string) (first, last byte) {
	s = strings.Trim(s, " \t\r\n")
	if s == "" {
		return 0, 0
	}
	return s[0], s[len(s)-1]
}

// looksJSON tells the beginning of a JSON object or array from other text in brackets.
func looksJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	if s[0] == '"' {
		return false
	}
	rest := strings.TrimLeft(s[1:], " \t\r\n")
	if rest == "" {
		return false
	}
	switch c := rest[0]; {
	case c == '"', c == '{' && s[0] == '[', c == '[' && s[0] == '[':
		return true
	}
	return false
}

// encodedJSON reports whether the string is base64 of a JSON object or array, in which no key could be seen.
func encodedJSON(s string) bool {
	if len(s) < 16 {
		return false
	}
	// "{" and "[" begin, in base64, with "e" and "W".
	if s[0] != 'e' && s[0] != 'W' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !base64Byte(s[i]) && s[i] != '=' {
			return false
		}
	}
	t := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.DecodeString(t)
	return err == nil && jsontext.Value(b).IsValid(jsonOptions, jsontext.AllowInvalidUTF8(true))
}

func base64Byte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}
