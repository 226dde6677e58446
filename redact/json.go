package redact

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const maxDepth = 128 // arrays and objects

var (
	errDepth    = errors.New("redact: JSON too deep")
	errTrailing = errors.New("redact: more than one JSON value")
)

// jsonOptions accept what lenient servers accept: a key given twice, of which any may count, and bytes that are not
// UTF-8, which come out as U+FFFD.
var jsonOptions = jsontext.Options(jsontext.AllowDuplicateNames(true))

// json masks one JSON text; nesting says how many strings it was found inside of.
func (p *pass) json(in []byte, nesting int) ([]byte, error) {
	w := walk{pass: p, nesting: nesting, dec: jsontext.NewDecoder(bytes.NewBuffer(in), jsonOptions, jsontext.AllowInvalidUTF8(true))}
	w.out.Grow(len(in) + len(in)/8)
	w.enc = jsontext.NewEncoder(&w.out, jsonOptions, jsontext.AllowInvalidUTF8(true))
	for {
		if err := w.token(); err != nil {
			return nil, err
		}
		if w.dec.StackDepth() == 0 {
			break
		}
		if w.dec.StackDepth() > maxDepth {
			return nil, errDepth
		}
	}
	if w.dec.PeekKind() != 0 || len(bytes.Trim(in[w.dec.InputOffset():], " \t\r\n")) > 0 {
		return nil, errTrailing
	}
	return bytes.TrimSuffix(w.out.Bytes(), []byte("\n")), nil
}

// walk is one JSON text under way.
type walk struct {
	*pass
	nesting int
	dec     *jsontext.Decoder
	enc     *jsontext.Encoder
	out     bytes.Buffer
	name    string // of the member whose value comes, or whose elements come
}

// token copies one token, or a name with its whole value if the name tells to mask it.
func (w *walk) token() error {
	within, n := w.dec.StackIndex(w.dec.StackDepth())
	isName := within == '{' && n%2 == 0
	if !isName && w.s != nil && len(w.s.paths) > 0 && w.dec.PeekKind() != ']' && w.dec.PeekKind() != '}' {
		if masked, err := w.atPath(); masked || err != nil {
			return err
		}
	}
	tok, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '"':
	case '0':
		return w.number(tok)
	default:
		return w.enc.WriteToken(tok)
	}
	text := tok.String()
	if !isName && w.joins != nil && w.nesting == 0 && pieceNames[w.name] {
		return w.enc.WriteToken(jsontext.String(w.joins.push(w.pass, text)))
	}
	if !isName {
		return w.enc.WriteToken(jsontext.String(w.str(text, w.name, w.nesting)))
	}
	// A key can be data, and hold a secret itself.
	if err := w.enc.WriteToken(jsontext.String(w.str(text, "", w.nesting))); err != nil {
		return err
	}
	w.name = text
	mask := w.s.mask(text)
	if mask == "" || w.dec.PeekKind() == 0 {
		return nil
	}
	return w.skip(mask)
}

func (w *walk) skip(mask string) error {
	if w.marks != nil {
		return w.keepType(mask)
	}
	if err := w.dec.SkipValue(); err != nil {
		return err
	}
	return w.enc.WriteToken(jsontext.String(w.count(mask)))
}

// minNumber is the length of a number that can be a card's or a person's.
const minNumber = 9

func (w *walk) number(tok jsontext.Token) error {
	text := tok.String()
	if len(text) < minNumber {
		return w.enc.WriteToken(tok)
	}
	if safe := w.detect(w.held(text), w.name); safe != text {
		if w.marks != nil {
			safe = w.marks.number(text)
		}
		return w.enc.WriteToken(jsontext.String(safe))
	}
	return w.enc.WriteToken(tok)
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
		out, err := inner.json([]byte(s), nesting+1)
		p.decoded = inner.decoded
		if err == nil {
			return p.nested(s, string(out), inner)
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
func (p *pass) nested(s, masked string, inner *pass) string {
	p.failed = p.failed || inner.failed
	if len(inner.counts) == 0 && !inner.failed {
		return escapeHidden(s)
	}
	p.add(inner)
	return escapeHidden(masked)
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
