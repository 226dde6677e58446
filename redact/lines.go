package redact

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxLine is the longest line of a text, part of a form, or JSON string in a stream that is read; a longer one becomes its length and
// a hash. It bounds what a stream holds.
const maxLine = 32 << 10

// lineReader gives lines, with what ends them.
type lineReader struct {
	in   *bufio.Reader
	ends string // bytes that end one
	buf  []byte
}

func newLines(r io.Reader, ends string) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 4<<10), ends: ends}
}

// next returns a line and what ended it, "" at the end of the input. A line that was too long comes as what stands for it. A line that an
// error broke off is not given out.
func (l *lineReader) next() (line []byte, end string, long bool, err error) {
	l.buf = l.buf[:0]
	var h *hasher
	n := 0
	for {
		c, err := l.in.ReadByte()
		if err == io.EOF && (n > 0 || len(l.buf) > 0) {
			break
		}
		if err != nil {
			return nil, "", false, err
		}
		if strings.IndexByte(l.ends, c) >= 0 {
			end = string(c)
			break
		}
		if len(l.buf) == maxLine {
			if h == nil {
				h = newHasher()
				defer hashers.Put(h)
			}
			n += len(l.buf)
			h.mac.Write(l.buf)
			l.buf = l.buf[:0]
		}
		l.buf = append(l.buf, c)
	}
	if h == nil {
		return l.buf, end, false, nil
	}
	n += len(l.buf)
	h.mac.Write(l.buf)
	return fmt.Appendf(nil, "[unparsed %d bytes hmac=%s]", n, h.sum12()), end, true, nil
}

// freeText masks text in blocks of whole lines. A PEM block is masked as a whole, whatever its length.
type freeText struct {
	*pass
	pem   bool
	block []byte
}

// maxBlock is how much text is looked at together, since a value may stand in the line after its name.
const maxBlock = 8 << 10

func (t *freeText) copy(w io.Writer, r io.Reader) error {
	lines := newLines(r, "\n")
	for {
		line, end, long, err := lines.next()
		if err != nil && err != io.EOF {
			return err
		}
		var out string
		switch {
		case err == io.EOF:
			out = t.flush()
		case long:
			t.failed = true
			out = t.flush() + string(line) + end
		default:
			out = t.line(line, end)
		}
		if _, werr := io.WriteString(w, out); werr != nil || err == io.EOF {
			return werr
		}
	}
}

// line takes one line, and returns what can be shown.
func (t *freeText) line(line []byte, end string) (out string) {
	if t.pem {
		at := bytes.Index(line, []byte("-----END"))
		if at < 0 {
			return ""
		}
		t.pem = false
		rest := line[at+len("-----END"):]
		at = bytes.Index(rest, []byte("-----"))
		if at < 0 {
			return end
		}
		return t.line(rest[at+5:], end)
	}
	if len(t.block)+len(line) > maxBlock {
		out = t.settled()
	}
	t.block = append(append(t.block, line...), end...)
	at := bytes.LastIndex(line, []byte("-----BEGIN"))
	if t.pem = at >= 0 && !bytes.Contains(line[at:], []byte("-----END")); t.pem {
		out += t.flush() // which masks from BEGIN to its end
	}
	return out
}

// settled gives what has come, but for the lines in which a credential that the process holds may have begun.
func (t *freeText) settled() string {
	open := 1 + bytes.LastIndexByte(t.block[:knownOpen(t.block, live)], '\n')
	if open == 0 {
		return t.flush()
	}
	rest := append([]byte(nil), t.block[open:]...)
	t.block = t.block[:open]
	out := t.flush()
	t.block = append(t.block, rest...)
	return out
}

func (t *freeText) flush() string {
	text := string(t.block)
	t.block = t.block[:0]
	t.allowed += maxDecoded*len(text) + 1<<10
	return t.str(text, "", 0)
}
