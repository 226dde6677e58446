package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// maxFileBytes bounds every file that is read whole.
const maxFileBytes = 1 << 20

var errTooLarge = errors.New("the file is larger than 1 MiB")

// readFile reads a regular file (or a symlink to one) of at most maxFileBytes. The check for a regular file comes before
// the open, which would wait for ever on a pipe.
func readFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, plainError(err)
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, plainError(err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, plainError(err)
	}
	if len(b) > maxFileBytes {
		return nil, errTooLarge
	}
	return b, nil
}

// plainError drops operation and path from a file error: the position and the value say them already.
func plainError(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// text checks that b is UTF-8 text without control characters and returns it without a byte order mark.
func (r *report) text(file string, b []byte) (string, bool) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	line, col, ok := 1, 1, true
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		at := mark{file, line, col}
		switch {
		case c == utf8.RuneError && n == 1:
			r.errorf(at, "found byte 0x%02x, expected UTF-8 text", b[i])
			return "", false
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f, c >= 0x80 && c < 0xa0, c == 0x2028, c == 0x2029, c == 0xfeff:
			r.errorf(at, "found control character U+%04X, expected printable text", c)
			ok = false
		}
		i += n
		if col++; c == '\n' {
			line, col = line+1, 1
		}
	}
	return string(b), ok
}

// unindented makes JSON ready for a parser of YAML: no tabs between the tokens, which YAML forbids and after which the parser
// miscounts columns. They mean nothing there.
func unindented(text string) string {
	if !strings.Contains(text, "\t") || !json.Valid([]byte(text)) {
		return text
	}
	out, inString := []byte(text), false
	for i := 0; i < len(out); i++ {
		switch {
		case inString && out[i] == '\\':
			i++
		case out[i] == '"':
			inString = !inString
		case !inString && out[i] == '\t':
			out[i] = ' '
		}
	}
	return string(out)
}

// readableFile returns an error unless path is a regular file, or a symlink to one, that this process may read.
func readableFile(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return plainError(err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return plainError(err)
	}
	return f.Close()
}
