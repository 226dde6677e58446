package detect

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// stream is how a text is masked that comes in pieces: the protocol that Part describes.
type stream struct {
	set   *Set
	out   bytes.Buffer
	buf   []byte // context that went out, and what is held back
	sent  int    // how much of buf is context
	begun Begun
	most  int // the most that was held back
}

func (s *stream) write(piece []byte) {
	s.buf = append(s.buf, piece...)
	if s.begun.Class != "" && !s.skip() {
		return
	}
	spans, open, begun := s.set.Part(nil, s.buf)
	s.emit(spans, open)
	if s.begun = begun; begun.Class == "" {
		s.most = max(s.most, len(s.buf)-s.sent)
	} else {
		s.mask(begun.Class)
		s.skip()
		return
	}
	if drop := s.sent - Context; drop > 0 {
		s.buf, s.sent = append([]byte(nil), s.buf[drop:]...), Context
	}
}

func (s *stream) mask(class string) { s.out.WriteString("[REDACTED:" + class + "]") }

// skip leaves out what has begun, and reports whether it is over.
func (s *stream) skip() bool {
	if n := s.begun.End(s.buf[s.sent:]); n >= 0 {
		s.buf, s.sent, s.begun = append([]byte(nil), s.buf[s.sent+n:]...), 0, Begun{}
		return true
	}
	s.buf, s.sent = append([]byte(nil), s.buf[max(s.sent, len(s.buf)-128):]...), 0
	return false
}

// emit lets out all before open.
func (s *stream) emit(spans []Span, open int) {
	for _, p := range spans {
		if p.End <= s.sent {
			continue
		}
		s.out.Write(s.buf[s.sent:max(p.Start, s.sent)])
		s.mask(p.Class)
		s.sent = p.End
	}
	if open > s.sent {
		s.out.Write(s.buf[s.sent:open])
		s.sent = open
	}
}

func (s *stream) close() string {
	if s.begun.Class == "" {
		s.emit(s.set.Scan(nil, s.buf, ""), len(s.buf))
	}
	return s.out.String()
}

var placeholders = regexp.MustCompile(`\[REDACTED:[a-z_]+\]`)

// leaks returns the first of the spans of which six bytes or more came out.
func leaks(text, out string, spans []Span) string {
	out = placeholders.ReplaceAllString(out, "\x01")
	for _, p := range spans {
		secret := text[p.Start:p.End]
		for i := 0; i+min(6, len(secret)) <= len(secret); i++ {
			if part := secret[i : i+min(6, len(secret))]; strings.Contains(out, part) && !strings.Contains(text[:p.Start]+"\x00"+text[p.End:], part) {
				return secret
			}
		}
	}
	return ""
}

// TestEverySplit: wherever a text is cut in two, and byte by byte, no part of a secret comes out that does not in one piece.
func TestEverySplit(t *testing.T) {
	set := allOf(t)
	for _, c := range cases {
		text, spans := split(c.text)
		text = strings.Repeat("some text before it ", 20) + text + " and some after it"
		for i := range spans {
			spans[i].Start, spans[i].End = spans[i].Start+400, spans[i].End+400
		}
		for cut := 390; cut < len(text); cut++ {
			s := stream{set: set}
			s.write([]byte(text[:cut]))
			s.write([]byte(text[cut:]))
			if out := s.close(); leaks(text, out, spans) != "" {
				t.Fatalf("cut at %d: %s", cut-400, out[300:])
			}
		}
		s := stream{set: set}
		for i := range text {
			s.write([]byte(text[i : i+1]))
		}
		if out := s.close(); leaks(text, out, spans) != "" {
			t.Fatalf("byte by byte: %s", out[300:])
		}
	}
}

// TestHold: what is held back has a bound, and an ordinary sentence goes out up to its last word.
func TestHold(t *testing.T) {
	set := allOf(t)
	for _, text := range []string{
		strings.Repeat("x", 1<<16), strings.Repeat("12 ", 1<<14), strings.Repeat("-----BEGIN ", 5000), "password: \"" + strings.Repeat("a b ", 1<<14),
		"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIE\n", 10000), "ey" + "JhbGciOiJIUzI1NiJ9.eyJh" + strings.Repeat("Q", 1<<16), "https://" + strings.Repeat("u", 1<<16),
		"Authorization: Digest " + strings.Repeat("a=b, ", 1<<13), strings.Repeat("curl -u \"a", 3000), "kind: secret data: " + strings.Repeat(" a", 1<<14),
	} {
		s := stream{set: set}
		for i := 0; i < len(text); i += 700 {
			s.write([]byte(text[i:min(i+700, len(text))]))
			if len(s.buf) > Context+Hold+1400 {
				t.Fatalf("%.30q: %d bytes are kept", text, len(s.buf))
			}
		}
		if s.most > Hold {
			t.Errorf("%.30q: %d bytes were held back", text, s.most)
		}
	}
	for _, text := range []string{"The token that you asked fo", "An order of 12 items for 30 EUR is read", "see https://example.org/a?b=c and rea", "{\"message\": \"the secret of goo"} {
		_, open, _ := set.Part(nil, []byte(text))
		if want := strings.LastIndexByte(text, ' ') + 1; open < want-5 {
			t.Errorf("%q: held back from %q", text, text[open:])
		}
	}
}

// What is longer than any window is masked to its end.
func TestBegun(t *testing.T) {
	set := allOf(t)
	for _, c := range []struct{ text, want string }{
		{"a -----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA\n", 500) + "-----END RSA PRIVATE KEY----- b", "a [REDACTED:private_key] b"},
		{"a ey" + "JhbGciOiJIUzI1NiJ9.eyJh" + strings.Repeat("QUJD", 2000) + ".c2ln b", "a [REDACTED:jwt] b"},
		{"a -----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA\n", 500), "a [REDACTED:private_key]"},
	} {
		for _, size := range []int{1, 7, 300, 5000} {
			s := stream{set: set}
			for i := 0; i < len(c.text); i += size {
				s.write([]byte(c.text[i:min(i+size, len(c.text))]))
			}
			if got := s.close(); got != c.want {
				t.Errorf("in pieces of %d: %.200q, expected %q", size, got, c.want)
			}
		}
	}
}

// FuzzScan: spans are in bounds, sorted and apart; masking twice is masking once; and what is masked in one piece is masked in
// two.
func FuzzScan(f *testing.F) {
	for _, c := range cases {
		text, _ := split(c.text)
		f.Add(text, "message", uint16(len(text)/2))
	}
	set, err := New(Options{PII: PII})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, name string, cut uint16) {
		last := 0
		for _, p := range set.Scan(nil, []byte(text), name) {
			if p.Start < last || p.End <= p.Start || p.End > len(text) || p.Class == "" {
				t.Fatalf("%v", p)
			}
			last = p.End
		}
		spans := set.Scan(nil, []byte(text), "")
		once := maskAll(set, text, "")
		if twice := maskAll(set, once, ""); twice != once {
			t.Fatalf("masked twice:\n%q\n%q\n%q", text, once, twice)
		}
		at := int(cut) % (len(text) + 1)
		s := stream{set: set}
		s.write([]byte(text[:at]))
		s.write([]byte(text[at:]))
		if out := s.close(); leaks(text, out, spans) != "" {
			t.Fatalf("%q cut at %d: %q leaks %q", text, at, out, leaks(text, out, spans))
		}
	})
}
