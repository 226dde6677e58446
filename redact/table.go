package redact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

var errTable = errors.New("redact: the first line of a table is too long")

// separators are what spreadsheets put between cells. Which of them a table has is seen in its first line.
const separators = ",;\t|"

// table masks CSV (RFC 4180) row by row: the columns whose head is a secret's name, and then the row as text.
type table struct {
	freeText
	in    *bufio.Reader
	row   []byte
	comma byte     // 0 before the head was read
	masks []string // by column, "" for what is harmless
	roles []role   // by column
	first int      // the first column that is masked, -1: none
}

func (t *table) copy(w io.Writer, r io.Reader) error {
	t.in = bufio.NewReaderSize(r, 4<<10)
	for {
		instead, err := t.next()
		var out string
		switch {
		case err != nil && err != io.EOF:
			return err
		case err == io.EOF:
			out = t.flush()
		case instead != "" && t.comma == 0:
			return errTable
		case instead != "":
			t.failed = true
			out = t.flush() + instead + "\n"
		case t.comma == 0:
			t.head()
			out = t.lines(t.row)
		default:
			out = t.lines(t.masked())
		}
		if _, werr := io.WriteString(w, out); werr != nil || err == io.EOF {
			return werr
		}
	}
}

// next reads a row with what ends it, over the ends of lines in quotes. What stands for a row of more than maxLine bytes is returned.
func (t *table) next() (instead string, err error) {
	t.row = t.row[:0]
	var h *hasher
	n, q := 0, cellQuotes{start: true}
	for {
		c, err := t.in.ReadByte()
		if err == io.EOF && n > 0 {
			break
		}
		if err != nil {
			return "", err
		}
		if len(t.row) == maxLine {
			if h == nil {
				h = newHasher()
				defer hashers.Put(h)
			}
			h.mac.Write(t.row)
			t.row = t.row[:0]
		}
		t.row = append(t.row, c)
		n++
		q.step(c, t.separates(c) || n <= len(bom) && strings.HasPrefix(bom, string(t.row)))
		if !q.in && (c == '\n' || c == '\r' && !t.follows('\n')) {
			break
		}
	}
	if h == nil {
		return "", nil
	}
	h.mac.Write(t.row)
	return fmt.Sprintf("[unparsed %d bytes hmac=%s]", n, h.sum12()), nil
}

// cellQuotes tells what is in quotes. They are such only at the beginning of a cell, and a quote within is two of them.
type cellQuotes struct{ in, start, closed bool }

// step takes the next byte. Then start says whether a cell begins behind it.
func (q *cellQuotes) step(c byte, separator bool) {
	if c == '"' && (q.in || q.start || q.closed) {
		q.in = !q.in
		q.closed, q.start = !q.in, false
		return
	}
	q.closed, q.start = false, separator && !q.in
}

const bom = "\ufeff"

func (t *table) follows(c byte) bool {
	b, err := t.in.Peek(1)
	return err == nil && b[0] == c
}

func (t *table) separates(c byte) bool {
	return c == t.comma || t.comma == 0 && strings.IndexByte(separators, c) >= 0
}

// head learns from the first row what the columns hold.
func (t *table) head() {
	row := bytes.TrimPrefix(bytes.TrimRight(t.row, "\r\n"), []byte(bom))
	t.comma, t.first = separators[0], -1
	most := 0
	for i := range separators {
		if n := len(cells(row, separators[i])); n > most {
			t.comma, most = separators[i], n
		}
	}
	for i, c := range cells(row, t.comma) {
		name := cellText(c)
		mask := t.s.labelMask(name)
		t.masks, t.roles = append(t.masks, mask), append(t.roles, roleOf(name))
		if mask != "" && t.first < 0 {
			t.first = i
		}
	}
}

// cells splits a row.
func cells(row []byte, comma byte) (all [][]byte) {
	q, from := cellQuotes{start: true}, 0
	for i, c := range row {
		if q.step(c, c == comma); q.start {
			all, from = append(all, row[from:i]), i+1
		}
	}
	return append(all, row[from:])
}

func cellText(cell []byte) string {
	if len(cell) > 1 && cell[0] == '"' && cell[len(cell)-1] == '"' {
		return strings.ReplaceAll(string(cell[1:len(cell)-1]), `""`, `"`)
	}
	return string(cell)
}

// masked returns the row without what its columns tell to mask.
func (t *table) masked() []byte {
	row := bytes.TrimRight(t.row, "\r\n")
	all := cells(row, t.comma)
	pair := t.pairMask(all)
	if t.first < 0 && pair == "" {
		return t.row
	}
	var out []byte
	for i, c := range all {
		if i > 0 {
			out = append(out, t.comma)
		}
		mask := t.maskOf(i, len(all), pair)
		text := cellText(c)
		switch n := placeholderLen(text); {
		case mask == "", text == "", n == len(text):
			out = append(out, c...)
		case c[0] == '"':
			out = append(append(append(out, '"'), t.put(mask, text)...), '"')
		default:
			out = append(out, t.put(mask, text)...)
		}
	}
	return append(out, t.row[len(row):]...)
}

// pairMask returns the placeholder for the value of a row of names and values.
func (t *table) pairMask(all [][]byte) string {
	for i, c := range all {
		if i < len(t.roles) && t.roles[i] == nameRole {
			if mask := t.s.labelMask(cellText(c)); mask != "" {
				return mask
			}
		}
	}
	return ""
}

// maskOf returns the placeholder for a column of a row with so many. Where that is not the number of the head's, a cell may stand in
// another column than it should, from the first secret one on.
func (t *table) maskOf(i, columns int, pair string) string {
	switch {
	case columns != len(t.masks) && t.first >= 0 && i >= t.first:
		return t.masks[t.first]
	case i >= len(t.masks):
		return ""
	case t.masks[i] == "" && t.roles[i] == valueRole:
		return pair
	}
	return t.masks[i]
}

// lines takes the lines of a row as text.
func (t *table) lines(row []byte) string {
	var out strings.Builder
	for line := range bytes.Lines(row) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		out.WriteString(t.line(text, string(line[len(text):])))
	}
	return out.String()
}
