package redact

import (
	"bytes"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// events masks an event stream (HTML, section 9.2), event by event. What comes in pieces, as the output of a language model
// does, is joined, and so a secret is seen that was split.
type events struct {
	*pass
	joins joins
	data  []byte
	lines int // of data
	size  int
	cr    bool // the last line ended with "\r", so an empty one that "\n" ends is none
	over  bool // the event is too long
}

func (e *events) copy(w io.Writer, r io.Reader) error {
	lines := newLines(r, "\r\n")
	for {
		line, end, long, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(line) == 0 && end == "\n" && e.cr {
			e.cr = false
			continue
		}
		e.cr = end == "\r"
		if _, err := io.WriteString(w, e.line(line, long)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, e.end()+e.joins.rest(e.pass))
	return err
}

// line takes one line and returns what of the event can be shown.
func (e *events) line(line []byte, long bool) string {
	if long {
		e.failed = true
		return "data: " + string(line) + "\n"
	}
	e.allowed += maxDecoded*len(line) + 1<<10
	if len(line) == 0 {
		return e.end() + "\n"
	}
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "data":
		if e.size += len(value) + 1; e.size > maxLine {
			out := "data: " + e.fail(append(e.data, value...)) + "\n"
			e.data, e.lines, e.over = e.data[:0], 0, true
			return out
		}
		if e.over {
			return "data: " + e.fail([]byte(value)) + "\n"
		}
		if e.lines++; e.lines > 1 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		return ""
	case "", "event", "id", "retry":
		return name + ": " + e.str(value, "", 0) + "\n"
	}
	return ": " + e.fail(line) + "\n"
}

// end masks the data that has come, without the empty line.
func (e *events) end() string {
	defer func() { e.data, e.lines, e.size, e.over = e.data[:0], 0, 0, false }()
	if e.lines == 0 {
		return ""
	}
	text := ""
	if first, _ := ends(string(e.data)); first == '{' || first == '[' || first == '"' {
		text = e.event()
	} else {
		text = e.str(string(e.data), "", 0)
	}
	return "data: " + strings.ReplaceAll(text, "\n", "\ndata: ") + "\n"
}

func (e *events) event() string {
	keys, err := fragments(e.data)
	if err != nil {
		return e.str(string(e.data), "", 0)
	}
	e.joins.keys = keys
	e.pass.joins = &e.joins
	defer func() { e.pass.joins = nil }()
	out, err := e.json(e.data, 0)
	if err != nil {
		return e.fail(e.data)
	}
	return string(out)
}

// pieceNames are the members whose strings are pieces of something, at the services of today.
var pieceNames = map[string]bool{"delta": true, "content": true, "arguments": true, "text": true, "partial_json": true, "thinking": true,
	"reasoning": true, "reasoning_content": true, "refusal": true, "completion": true, "response": true, "output": true, "input": true}

// indexes are the members that tell what a piece belongs to.
var indexes = map[string]bool{"index": true, "output_index": true, "content_index": true, "summary_index": true, "item_id": true}

// fragments returns, for each string that is a piece in the order in which they stand, what it belongs to: the path to it and the
// indexes beside the path.
func fragments(b []byte) ([]string, error) {
	type level struct{ name, at string }
	type found struct {
		levels []*level
		name   string
	}
	var all []found
	var levels []*level
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), jsonOptions, jsontext.AllowInvalidUTF8(true))
	name := ""
	for {
		within, n := dec.StackIndex(dec.StackDepth())
		isName := within == '{' && n%2 == 0
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		switch kind := tok.Kind(); {
		case isName && kind == '"':
			name = tok.String()
		case kind == '{', kind == '[':
			levels = append(levels, &level{name: name})
		case kind == '}', kind == ']':
			levels = levels[:len(levels)-1]
		case indexes[name] && within == '{':
			l := levels[len(levels)-1]
			l.at += "," + name + "=" + tok.String()
		case kind == '"' && pieceNames[name]:
			all = append(all, found{append([]*level(nil), levels...), name})
		}
		if dec.StackDepth() == 0 {
			break
		}
		if dec.StackDepth() > maxDepth {
			return nil, errDepth
		}
	}
	keys := make([]string, len(all))
	for i, f := range all {
		var b strings.Builder
		for _, l := range f.levels {
			b.WriteString(l.name + l.at + "/")
		}
		keys[i] = b.String() + f.name
	}
	return keys, nil
}
