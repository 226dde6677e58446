package audit

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// TestVerifyHostileInput: whatever a file holds, verifying ends, holds little, says where it is wrong and prints nothing that a terminal
// obeys.
func TestVerifyHostileInput(t *testing.T) {
	whole := func() string { return string(chained(t, Head{}, nil, 4)) }
	other := string(chained(t, Head{}, nil, 4))
	last := func(text, from, to string) string { // changes the last line alone, which no other vouches for
		text = strings.TrimSuffix(text, "\n")
		at := strings.LastIndexByte(text, '\n') + 1
		return text[:at] + strings.Replace(text[at:], from, to, 1) + "\n"
	}
	interleaved := func() string {
		a, b := strings.SplitAfter(whole(), "\n"), strings.SplitAfter(other, "\n")
		var all strings.Builder
		for i := range a {
			all.WriteString(a[i] + b[i])
		}
		return all.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"CRLF":                      {strings.ReplaceAll(whole(), "\n", "\r\n"), "white space"},
		"CRLF in the last line":     {last(whole(), "}", "}\r"), "white space"},
		"a key twice":               {last(whole(), `"seq":6`, `"seq":6,"seq":6`), "there twice"},
		"a key in capitals":         {last(whole(), `"seq":6`, `"seq":6,"Tool":"x"`), "a key that no record has"},
		"an escaped key":            {last(whole(), `"seq":6`, `"\u0073eq":6`), "a key that no record has"},
		"keys in another order":     {last(whole(), `"kind":"end"`, `"zone":"x","kind":"end"`), "not in their order"},
		"a letter cut in half":      {last(whole(), `"kind":"end"`, "\"kind\":\"en\xc3\""), "not UTF-8"},
		"a NUL":                     {last(whole(), "end", "e\x00d"), "no JSON"},
		"NULs of a crash":           {whole() + strings.Repeat("\x00", 5000), "ends within"},
		"the greatest seq":          {last(whole(), `"seq":6`, `"seq":18446744073709551615`), "are missing"},
		"a seq beyond":              {last(whole(), `"seq":6`, `"seq":18446744073709551616`), "no seq"},
		"a seq below zero":          {last(whole(), `"seq":6`, `"seq":-1`), "no seq"},
		"a fraction":                {last(whole(), `"seq":6`, `"seq":6.0`), "no seq"},
		"after the greatest":        {last(whole(), `"seq":6`, `"seq":18446744073709551615`) + `{"prev_hash":"00","seq":2}` + "\n", "out of its order"},
		"two chains line by line":   {interleaved(), "out of its order"},
		"a list":                    {whole() + "[1]\n", "no seq"},
		"deep":                      {whole() + strings.Repeat("[", 100000) + "\n", "no JSON"},
		"a line without an end":     {whole() + strings.Repeat("x", 4*maxLine), "longer than any record"},
		"a long line in the middle": {"{\"a\":\"" + strings.Repeat("x", 2*maxLine) + "\"}\n" + whole(), "longer than any record"},
	} {
		r := verify(t, nil, false, []byte(c.text))
		found := false
		for _, f := range r.Findings {
			found = found || strings.Contains(f.What, c.want)
		}
		if !found {
			t.Errorf("%s: %.500v", name, r.Findings)
		}
	}
	lost := verify(t, nil, false, []byte(`{"lost":18446744073709551615,"prev_hash":"00","seq":5}`+"\n"+`{"lost":18446744073709551615,"prev_hash":"00","seq":6}`+"\n"))
	if lost.Lost != 1<<64-1 {
		t.Errorf("lost: %d", lost.Lost)
	}
	evil := "\\u001b[2J\\u202e" + strings.Repeat("z", 5000)
	r := verify(t, nil, false, []byte(`{"kind":"start","prev_hash":"`+genesis+`","previous_chain":"`+evil+`","previous_seq":9,"seq":1}`+"\n"+
		`{"key_id":"`+evil+`","kind":"checkpoint","prev_hash":"00","seq":2,"signature":"AA"}`+"\n"))
	for _, f := range append(r.Findings, r.Notes...) {
		if strings.ContainsFunc(f.String(), func(c rune) bool { return !unicode.IsPrint(c) }) || len(f.String()) > 400 {
			t.Errorf("printed: %q", f)
		}
	}
	if len(r.Notes) < 2 {
		t.Errorf("notes: %v", r.Notes)
	}
}

// TestVerifyManyFindings: a file that is none does not fill the memory.
func TestVerifyManyFindings(t *testing.T) {
	v := new(Verifier)
	if err := v.Read("f", io.LimitReader(endless{}, 200000)); err != nil {
		t.Fatal(err)
	}
	if r := v.Report(false); len(r.Findings) != maxFindings || r.More != 100000-maxFindings {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
}

// endless is lines of one letter.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	p = p[:len(p)&^1]
	for i := range p {
		p[i] = "x\n"[i&1]
	}
	return len(p), nil
}

// TestVerifyChainWithoutKey has an attacker who cuts the end off and goes on with a chain of their own: with the key pinned, one that names
// no key is found, and what no signature stands behind is told.
func TestVerifyChainWithoutKey(t *testing.T) {
	key := testKey(1)
	genuine := chained(t, Head{}, key, 7)
	cut := genuine[:bytes.LastIndexByte(bytes.TrimSpace(genuine), '\n')+1]
	if r := verify(t, public(key), false, cut, chained(t, Head{}, nil, 5)); len(r.Findings) == 0 || !strings.Contains(r.Findings[0].What, "names no key") {
		t.Errorf("%v", r.Findings)
	}
	lines := bytes.SplitAfter(cut, []byte("\n"))
	upTo := bytes.Join(lines[:len(lines)-2], nil) // a checkpoint, and what came after
	for _, c := range []struct {
		text []byte
		want string
	}{{genuine, ""}, {cut, "behind the last 1 lines"}, {upTo, ""}} {
		r := verify(t, public(key), false, c.text)
		got := ""
		for _, n := range r.Notes {
			if strings.Contains(n.What, "no signature") {
				got = n.What
			}
		}
		if len(r.Findings) > 0 || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("notes %v, findings %v", r.Notes, r.Findings)
		}
	}
}

// TestLongestRecord: what fills every field with what needs the longest escapes is still a line that is read again.
func TestLongestRecord(t *testing.T) {
	evil := strings.Repeat("\x01", 3*maxText)
	r := filled(t)
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case string:
			f.SetString(evil)
		case []string:
			f.Set(reflect.ValueOf(slices.Repeat([]string{evil}, 2*maxList)))
		}
	}
	b := appendRecord(nil, &r, link{seq: 1, prev: []byte(genesis), lost: 1 << 60})
	if len(b) < 200<<10 || len(b)+1 >= maxLine {
		t.Errorf("%d bytes of %d", len(b), maxLine)
	}
	if why := odd(b); why != "" {
		t.Errorf("%s: %.200s", why, b)
	}
}

// TestWroteAndFailed: who is told of lines is told of whole ones, once, after the sink has them, and of each failure.
func TestWroteAndFailed(t *testing.T) {
	var sink halfway
	var got bytes.Buffer
	failed := 0
	l := New(&sink, Options{Chain: true, Process: &Process{}, Failed: func() { failed++ }, Wrote: func(lines []byte) {
		if !bytes.HasSuffix(lines, []byte("\n")) || !bytes.HasSuffix(sink.b.Bytes(), lines) {
			t.Errorf("told of %q, the sink has %q", lines, sink.b.Bytes())
		}
		got.Write(lines)
	}})
	for i := range 20 {
		l.Write(Record{ID: fmt.Sprint(i), Kind: "request"})
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), sink.b.Bytes()) || failed == 0 {
		t.Errorf("told of %d bytes of %d, %d failures", got.Len(), sink.b.Len(), failed)
	}
}

// halfway takes half of what it is given, and then fails once.
type halfway struct {
	b bytes.Buffer
	n int
}

func (f *halfway) Write(p []byte) (int, error) {
	if f.n++; f.n%3 == 2 {
		return 0, io.ErrClosedPipe
	}
	return f.b.Write(p[:(len(p)+1)/2])
}
