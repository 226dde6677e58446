package redact

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxNesting = 4   // JSON texts inside JSON strings
	maxDepth   = 128 // arrays and objects
)

var (
	errDepth    = errors.New("redact: JSON too deep")
	errTrailing = errors.New("redact: more than one JSON value")
)

// jsonOptions accept what lenient servers accept: a key given twice, of which any may count, and bytes that are not
// UTF-8, which come out as U+FFFD.
var jsonOptions = jsontext.Options(jsontext.AllowDuplicateNames(true))

// json masks one JSON text; nesting says how many strings it was found inside of.
func (p *pass) json(in []byte, nesting int) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(in), jsonOptions, jsontext.AllowInvalidUTF8(true))
	var buf bytes.Buffer
	buf.Grow(len(in) + len(in)/8)
	enc := jsontext.NewEncoder(&buf, jsonOptions, jsontext.AllowInvalidUTF8(true))
	for {
		if err := p.token(dec, enc, nesting); err != nil {
			return nil, err
		}
		if dec.StackDepth() == 0 {
			break
		}
		if dec.StackDepth() > maxDepth {
			return nil, errDepth
		}
	}
	if dec.PeekKind() != 0 || len(bytes.Trim(in[dec.InputOffset():], " \t\r\n")) > 0 {
		return nil, errTrailing
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// token copies one token, or a name with its whole value if the name tells to mask it.
func (p *pass) token(dec *jsontext.Decoder, enc *jsontext.Encoder, nesting int) error {
	within, n := dec.StackIndex(dec.StackDepth())
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		return enc.WriteToken(tok)
	}
	text := tok.String()
	if isName := within == '{' && n%2 == 0; !isName {
		return enc.WriteToken(jsontext.String(p.str(text, nesting)))
	}
	// A key can be data, and hold a secret itself.
	if err := enc.WriteToken(jsontext.String(p.str(text, nesting))); err != nil {
		return err
	}
	mask := p.s.mask(text)
	if mask == "" {
		return nil
	}
	if err := dec.SkipValue(); err != nil {
		return err
	}
	return enc.WriteToken(jsontext.String(p.count(mask)))
}

// str masks a string of a payload: another JSON text inside it, or what is secret by its shape.
func (p *pass) str(s string, nesting int) string {
	switch first, last := ends(s); {
	case first == '{' && last == '}', first == '[' && last == ']', first == '"' && last == '"' && strings.Contains(s, `\`):
		if nesting >= maxNesting {
			if looksJSON(s) || jsontext.Value(s).IsValid(jsonOptions, jsontext.AllowInvalidUTF8(true)) {
				return p.count(maskEncoded)
			}
			break
		}
		inner := &pass{s: p.s, body: true}
		if out, err := inner.json([]byte(s), nesting+1); err == nil {
			return p.nested(s, string(out), inner)
		}
		if looksJSON(s) {
			return p.fail([]byte(s))
		}
	case (first == '{' || first == '[') && looksJSON(s):
		return p.fail([]byte(s)) // cut: the key that names a secret may stand in it
	}
	if encodedJSON(s) {
		return p.count(maskEncoded)
	}
	return escapeHidden(p.text(s))
}

// nested keeps the text as it was, whitespace and all, where nothing in it was masked.
func (p *pass) nested(s, masked string, inner *pass) string {
	p.failed = p.failed || inner.failed
	if len(inner.counts) == 0 && !inner.failed {
		return escapeHidden(s)
	}
	for class, n := range inner.counts {
		if p.counts == nil {
			p.counts = map[string]int{}
		}
		p.counts[class] += n
	}
	return escapeHidden(masked)
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
