package redact

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errDepth    = errors.New("redact: JSON too deep")
	errTrailing = errors.New("redact: more than one JSON value")
	errJSON     = errors.New("redact: not JSON")
	errEnd      = errors.New("redact: JSON breaks off")
)

// reader reads the tokens of one JSON text (RFC 8259) and copies those that nobody changes as they stand, whole runs of them at once. It
// accepts what package jsontext accepts with AllowDuplicateNames and AllowInvalidUTF8, and no more; a fuzz test holds it to that. It is
// there because a decoder and an encoder of tokens cost more than all that is looked for in them.
type reader struct {
	src      io.Reader // nil: buf is all there is, and is not changed
	dst      io.Writer // nil: out keeps all
	buf      []byte
	done     int // what stands before was copied or is not wanted
	tok      int // where the token under way begins
	at       int // the next byte
	gone     int // bytes that were in buf before
	out      []byte
	err      error // of src
	cut      int   // one more than where a number begins that reaches to the end of a stream; 0 for none
	skipping bool  // what is read is not wanted
	holding
}

const (
	minBuffer = 4 << 10
	maxBuffer = maxLine + 4<<10 // of a stream, which has no longer tokens
	maxSkip   = 10_000          // arrays and objects in what is skipped, as in package jsontext
)

// flush copies what stands before a place and was not copied.
func (r *reader) flush(to int) {
	if r.done < to && !r.skipping && !r.muted {
		r.room()
		r.out = append(r.out, r.buf[r.done:to]...)
	}
	r.done = to
}

// room makes place for what nearly all payloads become.
func (r *reader) room() {
	if r.out == nil && r.src == nil {
		r.out = make([]byte, 0, len(r.buf)+len(r.buf)/8)
	}
}

// replace writes a string in the place of the token that was read.
func (r *reader) replace(text string) {
	r.flush(r.tok)
	r.quote(text)
}

func (r *reader) quote(text string) {
	if r.muted {
		r.done = r.at
		return
	}
	r.room()
	if unescaped(text) {
		r.out = append(append(append(r.out, '"'), text...), '"')
		r.done = r.at
		return
	}
	r.out, _ = jsontext.AppendQuote(r.out, text) // what is not UTF-8 is written as U+FFFD
	r.done = r.at
}

// unescaped reports whether a JSON string can have the text as it is.
func unescaped(text string) bool {
	for i := 0; i < len(text); i++ {
		if signs[text[i]]&(signStop|signOdd) != 0 {
			return false
		}
	}
	return true
}

// more reads more of a stream behind the token under way. It returns false at the end.
func (r *reader) more() bool {
	if r.src == nil || r.err != nil {
		return false
	}
	r.flush(r.tok)
	if r.err = r.write(minBuffer); r.err != nil {
		return false
	}
	n := copy(r.buf, r.buf[r.tok:])
	r.buf, r.gone = r.buf[:n], r.gone+r.tok
	r.at -= r.tok
	r.done, r.tok = 0, 0
	if n == cap(r.buf) {
		r.buf = append(make([]byte, 0, min(max(2*n, minBuffer), maxBuffer)), r.buf...)
	}
	for range 100 {
		var k int
		k, r.err = r.src.Read(r.buf[n:cap(r.buf)])
		if r.buf = r.buf[:n+k]; k > 0 || r.err != nil {
			return k > 0
		}
	}
	r.err = io.ErrNoProgress
	return false
}

// write gives out what was copied, if it is so much.
func (r *reader) write(least int) error {
	if len(r.out) < least || r.waiting > 0 && len(r.out) < maxHeld {
		return nil
	}
	r.settle()
	_, err := r.dst.Write(r.out)
	r.out = r.out[:0]
	return err
}

// peek returns the next byte that is no white space, where a token begins. White space is not copied.
func (r *reader) peek() (byte, error) {
	for {
		if r.at < len(r.buf) {
			c := r.buf[r.at]
			if !white(c) {
				r.tok = r.at
				return c, nil
			}
			r.flush(r.at)
			for r.at < len(r.buf) && white(r.buf[r.at]) {
				r.at++
			}
			r.done = r.at
			continue
		}
		if r.tok = r.at; !r.more() {
			return 0, errEnd
		}
	}
}

func white(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// expect passes over one byte.
func (r *reader) expect(want byte) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	if c != want {
		return errJSON
	}
	r.at++
	return nil
}

// end makes sure that only white space follows.
func (r *reader) end() error {
	switch _, err := r.peek(); {
	case err == nil:
		return errTrailing
	case r.err != nil && r.err != io.EOF:
		return r.err
	}
	return nil
}

// has makes sure that n bytes are there from at on, if so many follow.
func (r *reader) has(n int) bool {
	for len(r.buf)-r.at < n {
		if !r.more() {
			return false
		}
	}
	return true
}

// readString reads a string, which then stands from tok to at, and returns what it has in it. A stream's string of more than maxLine bytes
// becomes its length and a hash, and is returned as that.
func (r *reader) readString() (s sign, long string, err error) {
	r.at++
	for {
		i := r.at
		for ; i < len(r.buf); i++ {
			c := signs[r.buf[i]]
			s |= c
			if c&signStop != 0 {
				break
			}
		}
		r.at = i
		if r.src != nil && !r.skipping && r.at-r.tok >= maxLine {
			long, err = r.readLong()
			return s, long, err
		}
		switch {
		case i == len(r.buf):
			if r.skipping {
				r.tok = r.at
			}
			if !r.more() {
				return s, "", errEnd
			}
		case r.buf[i] == '"':
			r.at++
			return s, "", nil
		default:
			if err := r.readEscape(); err != nil {
				return s, "", err
			}
		}
	}
}

// readEscape passes over one. Any other byte that ends a run of characters is a control, which no string has.
func (r *reader) readEscape() error {
	if r.buf[r.at] != '\\' {
		return errJSON
	}
	if !r.has(2) {
		return errEnd
	}
	switch r.buf[r.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.at += 2
		return nil
	case 'u':
		if !r.has(6) {
			return errEnd
		}
		var two [2]byte
		if _, err := hex.Decode(two[:], r.buf[r.at+2:r.at+6]); err == nil {
			r.at += 6
			return nil
		}
	}
	return errJSON
}

// readLong reads the rest of a string, and returns what stands for it.
func (r *reader) readLong() (string, error) {
	h := newHasher()
	defer hashers.Put(h)
	r.flush(r.tok)
	n, from := 0, r.tok+1
	for {
		for r.at < len(r.buf) && r.buf[r.at] != '"' && r.buf[r.at] != '\\' {
			r.at++
		}
		if r.at < len(r.buf) && r.buf[r.at] == '\\' && len(r.buf)-r.at > 1 {
			r.at += 2
			continue
		}
		n += r.at - from
		h.mac.Write(r.buf[from:r.at])
		r.done, r.tok, from = r.at, r.at, 0
		if r.at < len(r.buf) && r.buf[r.at] == '"' {
			r.at++
			return fmt.Sprintf("[unparsed %d bytes hmac=%s]", n, h.sum12()), nil
		}
		if !r.more() {
			return "", errEnd
		}
	}
}

// readNumber reads a number, which then stands from tok to at.
func (r *reader) readNumber() error {
	for {
		for r.at < len(r.buf) && signs[r.buf[r.at]]&signNumber != 0 {
			r.at++
		}
		if r.at < len(r.buf) || r.src != nil && r.at-r.tok > maxLine || !r.more() {
			break
		}
	}
	if r.src != nil && r.at == len(r.buf) {
		r.cut = r.tok + 1
	}
	if r.src != nil && r.at-r.tok > maxLine || !isNumber(r.buf[r.tok:r.at]) {
		return errJSON
	}
	return nil
}

// sure returns the end of what was read whole, of a text that could not be read further: a number at its end may have been cut.
func (r *reader) sure() int {
	if r.cut > 0 {
		return min(r.tok, r.cut-1)
	}
	return r.tok
}

// isNumber reports whether all of b is one number (RFC 8259, section 6).
func isNumber(b []byte) bool {
	digits := func() bool {
		n := len(b)
		for len(b) > 0 && b[0]-'0' <= 9 {
			b = b[1:]
		}
		return len(b) < n
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '0' {
		b = b[1:]
	} else if !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		if b = b[1:]; !digits() {
			return false
		}
	}
	if len(b) > 0 && b[0]|0x20 == 'e' {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		return digits() && len(b) == 0
	}
	return len(b) == 0
}

// readLiteral reads true, false or null, of which the first byte was seen.
func (r *reader) readLiteral() error {
	word := "null"
	switch r.buf[r.at] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	if !r.has(len(word)) {
		return errEnd
	}
	if string(r.buf[r.at:r.at+len(word)]) != word {
		return errJSON
	}
	r.at += len(word)
	return nil
}

// skipValue reads one value of any kind that is not wanted.
func (r *reader) skipValue() error {
	r.flush(r.tok)
	r.skipping = true
	defer func() { r.skipping, r.done = false, r.at }()
	var open []byte
	for {
		r.done = r.at
		c, err := r.peek()
		if err != nil {
			return err
		}
		if c == '{' || c == '[' {
			r.at++
			if open = append(open, c); len(open) > maxSkip {
				return errDepth
			}
			next, err := r.peek()
			if err != nil {
				return err
			}
			if next != c+2 {
				if err := r.skipName(c); err != nil {
					return err
				}
				continue
			}
		} else if err := r.skipScalar(c); err != nil {
			return err
		}
		if open, err = r.skipEnd(open); err != nil || len(open) == 0 {
			return err
		}
	}
}

// skipEnd passes over what stands behind a value: what closes, and what leads to the next value.
func (r *reader) skipEnd(open []byte) ([]byte, error) {
	for len(open) > 0 {
		c, err := r.peek()
		if err != nil {
			return nil, err
		}
		r.at++
		switch last := open[len(open)-1]; c {
		case last + 2: // "]" and "}" are two behind "[" and "{"
			open = open[:len(open)-1]
		case ',':
			return open, r.skipName(last)
		default:
			return nil, errJSON
		}
	}
	return open, nil
}

// skipName passes over a name and its colon, in an object.
func (r *reader) skipName(within byte) error {
	if within != '{' {
		return nil
	}
	c, err := r.peek()
	if err != nil {
		return err
	}
	if c != '"' {
		return errJSON
	}
	if _, _, err := r.readString(); err != nil {
		return err
	}
	return r.expect(':')
}

func (r *reader) skipScalar(c byte) error {
	switch c {
	case '"':
		_, _, err := r.readString()
		return err
	case 't', 'f', 'n':
		return r.readLiteral()
	}
	return r.readNumber()
}
