package redact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/redact/detect"
)

const (
	maxJoins  = 32
	maxJoined = 64 << 10 // bytes of JSON kept in all
)

// joins are the texts of a stream that come in pieces.
type joins struct {
	keys []string // of the pieces of this event that are still to come
	by   map[string]*joined
	kept int
}

// joined is one such text. What begins like JSON is kept until the stream ends, since a key may tell to mask what comes much
// later; of other text the last word waits for the next piece.
type joined struct {
	json   []byte
	isJSON bool
	over   bool
	window window
}

// push takes a piece and returns what can be shown in its place.
func (j *joins) push(p *pass, piece string) string {
	key := ""
	if len(j.keys) > 0 {
		key, j.keys = j.keys[0], j.keys[1:]
	}
	t := j.by[key]
	if t == nil {
		if len(j.by) == maxJoins {
			return p.fail([]byte(piece))
		}
		if j.by == nil {
			j.by = map[string]*joined{}
		}
		if piece == "" {
			return ""
		}
		first, _ := ends(piece)
		t = &joined{isJSON: first == '{' || first == '['}
		j.by[key] = t
	}
	if !t.isJSON {
		return escapeHidden(t.window.push(p, []byte(piece)))
	}
	if t.over || j.kept+len(piece) > maxJoined {
		t.over = true
		return p.fail([]byte(piece))
	}
	j.kept += len(piece)
	t.json = append(t.json, piece...)
	return ""
}

// rest returns what was kept, as events of its own.
func (j *joins) rest(p *pass) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(j.by)) {
		t := j.by[key]
		text := ""
		switch {
		case t.over:
			text = p.fail(t.json)
		case t.isJSON:
			p.allowed += maxDecoded*len(t.json) + 1<<10
			text = p.str(string(t.json), "", 0)
		default:
			text = escapeHidden(t.window.close(p))
		}
		if text == "" {
			continue
		}
		name := key[strings.LastIndexByte(key, '/')+1:]
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			quoted = fmt.Appendf(nil, "%q", p.fail([]byte(text)))
		}
		fmt.Fprintf(&b, "event: toolgate.joined\ndata: {%q:%s}\n\n", name, quoted)
	}
	j.by = nil
	return b.String()
}

// window masks a text that comes in pieces, holding back no more than may begin something.
type window struct {
	buf   []byte // what went out last, and what is held back
	sent  int    // how much of buf went out
	begun detect.Begun
}

// maxWindowed bounds what a credential that may have begun holds back.
const maxWindowed = 16 << 10

func (w *window) push(p *pass, piece []byte) string {
	if w.begun.Class != "" {
		n, over := w.begun.Skip(piece)
		if !over {
			return ""
		}
		w.begun, piece = detect.Begun{}, piece[n:]
	}
	w.buf = append(w.buf, piece...)
	spans, open, begun := p.detectors().Part(nil, w.buf)
	held := knownOpen(w.buf, live)
	for _, s := range KnownSpans(nil, w.buf, live) {
		spans = append(spans, s)
		if s.End > open && s.Start < open { // what else may begin in it is masked with it
			open = s.End
		}
	}
	if len(w.buf)-held <= maxWindowed {
		open = min(open, max(held, w.sent))
	}
	out := w.emit(p, spans, open)
	if begun.Class != "" {
		if w.sent < len(w.buf) {
			out += p.count("[REDACTED:" + begun.Class + "]")
		}
		w.begun = begun
		w.drop(len(w.buf), 0)
		return out
	}
	if drop := w.sent - detect.Context; drop > 0 {
		w.drop(drop, detect.Context)
	}
	return out
}

func (w *window) drop(n, sent int) { w.buf, w.sent = append(w.buf[:0], w.buf[n:]...), sent }

// emit masks what stands before open and has not gone out. Part of a span may have: its rest is masked.
func (w *window) emit(p *pass, spans []detect.Span, open int) string {
	slices.SortFunc(spans, func(a, b detect.Span) int { return a.Start - b.Start })
	var b strings.Builder
	for _, s := range spans {
		if s.End <= w.sent || s.Start >= open {
			continue
		}
		if s.Start > w.sent {
			b.Write(w.buf[w.sent:s.Start])
		}
		b.WriteString(p.put("[REDACTED:"+s.Class+"]", string(w.buf[s.Start:s.End])))
		w.sent = s.End
	}
	if open > w.sent {
		b.Write(w.buf[w.sent:open])
		w.sent = open
	}
	return b.String()
}

func (w *window) close(p *pass) string {
	if w.begun.Class != "" {
		return ""
	}
	return w.emit(p, KnownSpans(p.detectors().Scan(nil, w.buf, ""), w.buf, live), len(w.buf))
}
