package redact

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/redact/corpustest"
)

// recoded is a JSON text as package jsontext reads and writes it, token by token.
func recoded(t testing.TB, text string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	dec := jsontext.NewDecoder(strings.NewReader(text), jsonOptions, jsontext.AllowInvalidUTF8(true))
	enc := jsontext.NewEncoder(&out, jsonOptions, jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := dec.ReadToken()
		if err != nil || dec.StackDepth() > maxDepth {
			return "", false
		}
		if err := enc.WriteToken(tok); err != nil {
			t.Fatal(err)
		}
		if dec.StackDepth() == 0 {
			_, err := dec.ReadToken()
			return strings.TrimSuffix(out.String(), "\n"), err == io.EOF
		}
	}
}

var jsonTexts = []string{`{}`, `[]`, ` {"a" : [1, -0, 1.5e+10, 0.25E-3 , true,false , null] } `, `"x"`, `""`, "\"\x01\"", "\"\x7f\"", `"\/\b\f\n\r\t\"\\"`, `"\u0041\ud83d\ude00"`,
	`"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\x"`, `"\u12g4"`, `"\u12`, `"`, `"\`, "\"\xff\xc3\xa9\xe2\x80\xae\"", `01`, `1.`, `.5`, `-`, `+1`, `1e`, `1e+`, `1 2`, `1,`, `[1,]`, `[,1]`,
	`{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `[1 2]`, `[}`, `{]`, `nul`, `nullx`, `truefalse`, `tru`, "\ufeff1", "", " ", `{"a":1,"a":2}`,
	strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 129) + strings.Repeat("]", 129), strings.Repeat(`{"a":`, 130) + "1" + strings.Repeat("}", 130),
	`{"password":{"a":[1,{"b":"c\n"},[]],"d":{}},"x":[{"token":tru}]}`, `{"token":[1,2`, `{"token":{"a"1}}`, `{"token":01}`, `{"token":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
	`{"key":"` + strings.Repeat("long ", 9000) + `"}`, `{"` + strings.Repeat("k", 40000) + `":{"token":"` + strings.Repeat("v", 70000) + `"}}`, `[` + strings.Repeat("1", 40000) + `]`}

// readsAsJSONText holds the reader to what package jsontext accepts and writes.
func readsAsJSONText(t *testing.T, text string) {
	want, ok := recoded(t, text)
	p := &pass{s: &Scrubber{}, body: true, allowed: 1 << 30}
	got, err := p.json([]byte(text), 0)
	if deep := strings.Count(text, "[")+strings.Count(text, "{") > maxDepth; (err == nil) != ok && !(deep && err == nil) { // what is masked may be deeper
		t.Fatalf("%.200q: %v, package jsontext: %v", text, err, ok)
	}
	if err != nil {
		return
	}
	if !jsontext.Value(got).IsValid(jsonOptions) {
		t.Fatalf("%.200q became %.200q", text, got)
	}
	if len(p.counts) == 0 && !p.failed && escapeHidden(want) == want && !strings.Contains(want, `\u`) && !strings.ContainsRune(want, '\ufffd') && string(got) != want {
		t.Fatalf("%.200q became %.200q, want %.200q", text, got, want)
	}
	if len(text) > maxLine {
		return
	}
	for _, src := range []io.Reader{iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		var out bytes.Buffer
		p := &pass{s: &Scrubber{}, body: true, allowed: 1 << 30}
		if err := p.jsonStream(&out, src); err != nil || strings.TrimSuffix(out.String(), "\n") != string(got) {
			t.Fatalf("%.200q as a stream: %v %.200q, want %.200q", text, err, &out, got)
		}
	}
}

func TestReader(t *testing.T) {
	for _, text := range jsonTexts {
		readsAsJSONText(t, text)
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add(text)
	}
	f.Fuzz(readsAsJSONText)
}

// TestQuick: a string that the quick look lets pass, or masks itself, comes out as it does when it is looked at in every way.
func TestQuick(t *testing.T) {
	s := allClasses(t, "customer_email")
	for _, text := range quickTexts {
		for _, name := range []string{"", "key", "message", "api_token"} {
			checkQuick(t, s, text, name)
		}
	}
}

var quickTexts = []string{"", " ", "plain words", " {x", "[1]", "2025-01-01T10:00:00.123Z", "user: bob", "customer_email: bob", "Customer-Email = bob", "'password': hunter2", "bearer:abc", "Basic dXNlcjpwYXNz",
	"Bearer abc", "https://u:p@h/", "a=b+c", "a=1&b=2", "100%", "<b>", "aGVsbG8gd29ybGQgaGVsbG8=", "4bf92f3577b34da6", "6465616462656566646561646265656620202020", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"eyJhbGciOiJub25lIn0", "WzEsMiwzLDQsNSw2XQ==", "4111 1111 1111 1111", "bob@example.com", "[REDACTED:card] 4111111111111111", "-----BEGIN CERTIFICATE-----", "x eyJhbGciOiJub25l",
	"gh" + "p_0123456789abcdefABCDEF0123456789abcd and gh" + "p_0123456789abcdefABCDEF0123456789abcd", "10.0.0.1 fe80::1", "key=abc123XYZ890qwe",
	"docker run --password hunter2abc9 now", "login bob password hunter2abc9", "https://h.example/reset/abcdef123456", "ALTER USER x IDENTIFIED BY 'hunter2'",
	"Cookie: a1=b2; c3=d4", "ENV API_KEY a1b2c3d4e5f6", "GET /verify/abcdef123456 HTTP/1.1 see http://x"}

// TestQuickCorpus is TestQuick with the texts of the corpus, whole and in pieces.
func TestQuickCorpus(t *testing.T) {
	s := allClasses(t, "customer_email")
	for _, c := range corpustest.Load(t, "..") {
		for _, text := range append(strings.FieldsFunc(c.Text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= 0x7f }), c.Text) {
			for _, name := range []string{"", "key", "message"} {
				checkQuick(t, s, text, name)
			}
		}
	}
}

func checkQuick(t *testing.T, s *Scrubber, text, name string) {
	for i := 0; i < len(text); i++ {
		if signs[text[i]]&(signStop|signOdd) != 0 {
			return
		}
	}
	var all sign
	for i := 0; i < len(text); i++ {
		all |= signs[text[i]]
	}
	quick, slow := &pass{s: s, body: true, allowed: 1 << 30}, &pass{s: s, body: true, allowed: 1 << 30}
	got, want := text, slow.str(text, name, 0)
	switch quick.quick([]byte(text), all, &key{text: name, tells: quick.detectors().Tells(name)}) {
	case unsure:
		return
	case covered:
		got = quick.cover(text, quick.found)
	}
	if got != want || len(quick.counts) != len(slow.counts) || slow.failed {
		t.Fatalf("%q under %q: quickly %q %v, else %q %v", text, name, got, quick.counts, want, slow.counts)
	}
}

func FuzzQuick(f *testing.F) {
	for _, text := range quickTexts {
		f.Add(text, "key")
	}
	s := allClasses(f, "customer_email")
	f.Fuzz(func(t *testing.T, text, name string) { checkQuick(t, s, text, name) })
}
