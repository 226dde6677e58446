package redact

import (
	"bytes"
	"encoding/base64"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/corpustest"
)

// liveToken is put together so that the source holds no string that looks like a key.
var liveToken = "tgt" + "-Zq7/x+Lk9\"w<8&Yh2=Nb4_Vc6"

func holdLive(t testing.TB) Secret {
	t.Helper()
	return Live(New(liveToken))
}

// pieced gives its text in two reads, or byte by byte.
type pieced struct {
	text []byte
	cut  int // 0: byte by byte
	at   int
}

func (p *pieced) Read(b []byte) (int, error) {
	if p.at == len(p.text) {
		return 0, io.EOF
	}
	n := 1
	if p.at < p.cut {
		n = p.cut - p.at
	} else if p.cut > 0 {
		n = len(p.text) - p.at
	}
	n = copy(b, p.text[p.at:p.at+n])
	p.at += n
	return n, nil
}

// streams are payloads with secrets of each sort: known, by name, by form, and split over events.
func streams() map[string][2]string {
	jwt := "eyJ" + "hbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlc2lnbmF0dXJl"
	return map[string][2]string{
		"text":   {"text/plain", "first line\npassword = \"Tr0ub4dor&3xyz\"\nsaid " + liveToken + " and\n-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\nafter " + jwt + "\n"},
		"json":   {"application/json", `{"id":1,"customer_email":{"a":["bob@example.com"]},"say":` + jsonQuote(liveToken) + `,"j":"` + jwt + `","n":[1,2.5,true,null]}`},
		"ndjson": {"application/x-ndjson", `{"customer_email":"bob@example.com"}` + "\n" + `{"say":` + jsonQuote(liveToken) + "}\n"},
		"form":   {"application/x-www-form-urlencoded", "a=1&customer_email=bob%40example.com&t=" + jwt + "&z=2"},
		"events": {"text/event-stream", ": hello\r\nevent: x\r\ndata: {\"customer_email\":\"bob@example.com\"}\r\n\r\n" + deltas("the key is "+liveToken+" and "+jwt+" is another, said she") +
			"data: {\"index\":1,\"delta\":{\"partial_json\":\"{\\\"customer_\"}}\n\ndata: {\"index\":1,\"delta\":{\"partial_json\":\"email\\\":\\\"bob@exa\"}}\n\ndata: {\"index\":1,\"delta\":{\"partial_json\":\"mple.com\\\"}\"}}\n\n"},
		"parts": {"multipart/form-data; boundary=xyzzy", "--xyzzy\r\nContent-Disposition: form-data; name=\"customer_email\"\r\n\r\nbob@example.com\r\n--xyzzy\r\nContent-Disposition: form-data; name=\"v\"; filename=\"" + jwt + "\"\r\nContent-Type: application/json\r\n\r\n{\"password\":\"Tr0ub4dor&3xyz\"}\r\n--xyzzy--\r\n"},
	}
}

// TestStreamEverySplit: a stream comes out as the whole body does, wherever it is cut, and no secret is in it.
func TestStreamEverySplit(t *testing.T) {
	held := holdLive(t)
	s := forFields(t, "customer_email")
	for name, c := range streams() {
		want := s.Body(c[0], []byte(c[1]), true)
		for _, secret := range []string{"bob@", "mple.com", "Tr0ub4dor", "MIIEvQ", "hkiG9w", "ZSJ9.c2l", "Zq7/x+", "Nb4_Vc6"} {
			if strings.Contains(undelta(want.Text)+want.Text, secret) {
				t.Errorf("%s: %q is in %s", name, secret, want.Text)
			}
		}
		if want.Status != StatusRedacted {
			t.Errorf("%s: %s %s", name, want.Status, want.Text)
		}
		for cut := range len(c[1]) {
			var out bytes.Buffer
			r, err := s.Copy(&out, &pieced{text: []byte(c[1]), cut: cut}, c[0], "")
			if got := strings.TrimSuffix(out.String(), "\n"); err != nil || got != strings.TrimSuffix(want.Text, "\n") || r.Status != want.Status {
				t.Fatalf("%s cut at %d: %v %s\ngot  %s\nwant %s", name, cut, err, r.Status, got, want.Text)
			}
		}
	}
	runtime.KeepAlive(held.p)
}

// TestKnownInEveryCarrier: what the process holds is found by its value alone.
func TestKnownInEveryCarrier(t *testing.T) {
	held := holdLive(t)
	s := &Scrubber{}
	for _, c := range carriers {
		for _, text := range []string{liveToken, "it is " + liveToken + " and more", base64.StdEncoding.EncodeToString([]byte("user:" + liveToken))} {
			out := c.read(c.mask(s, text))
			if corpustest.Common(liveToken, out+unbase64(out)) >= 8 {
				t.Errorf("%s: %s", c.name, out)
			}
		}
	}
	for _, text := range []string{Text("x " + liveToken), URL("https://h.example/bot" + liveToken + "/send"), Error(io.ErrUnexpectedEOF), headerValue("User-Agent", liveToken)} {
		if corpustest.Common(liveToken, text) >= 8 {
			t.Error(text)
		}
	}
	runtime.KeepAlive(held.p)
}

// TestStreamBounds: what is too long to be held becomes its length and a hash, and what follows is read on.
func TestStreamBounds(t *testing.T) {
	s := &Scrubber{}
	long := strings.Repeat("secretish ", 10<<10)
	for contentType, c := range map[string][2]string{
		"application/json":                  {`{"a":"` + long + `","b":"` + long + `","c":7}`, `"c":7}`},
		"application/x-ndjson":              {`{"a":"` + long + "\"}\n{\"c\":7}\n", `{"c":7}`},
		"text/plain":                        {long + "\nc 7\n", "c 7"},
		"application/x-www-form-urlencoded": {"a=" + long + "&c=7", "c=7"},
		"text/event-stream":                 {"data: " + long + "\n\ndata: c7\n\n", "c7"},
	} {
		var out bytes.Buffer
		r, err := s.Copy(&out, strings.NewReader(c[0]), contentType, "")
		if err != nil || r.Status != StatusFailedClosed || strings.Contains(out.String(), "secretish") || !strings.HasSuffix(strings.TrimSpace(out.String()), c[1]) {
			t.Errorf("%s: %v %s %.300q", contentType, err, r.Status, out.String())
		}
	}
}

// A broken stream shows nothing of the rest.
func TestStreamBreaks(t *testing.T) {
	s := &Scrubber{}
	for contentType, text := range map[string]string{
		"application/json":         `{"a":1,"b":nope "` + marker + `"}`,
		"application/octet-stream": marker,
		"multipart/x; boundary=b":  "--b\r\n\r\n" + marker,
	} {
		var out bytes.Buffer
		r, err := s.Copy(&out, strings.NewReader(text), contentType, "")
		if err != nil || r.Status != StatusFailedClosed || leaks(out.String(), marker) != "" || !strings.Contains(out.String(), "hmac=") {
			t.Errorf("%s: %v %s %q", contentType, err, r.Status, out.String())
		}
	}
}

func TestCoded(t *testing.T) {
	s := forFields(t, "customer_email")
	for _, coding := range []string{"gzip", "br", "zstd"} {
		in := compressed(coding, `{"customer_email":"bob"}`)
		if r := s.Coded("application/json", coding, in, true); r.Text != `{"customer_email":"[REDACTED:field]"}` {
			t.Errorf("%s: %s", coding, r.Text)
		}
		bomb := compressed(coding, `"`+strings.Repeat(" ", 16<<20)+`"`)
		if r := s.Coded("application/json", coding, bomb, true); r.Status != StatusFailedClosed || len(r.Text) > 100 {
			t.Errorf("%s bomb: %s %.100s", coding, r.Status, r.Text)
		}
		if r := s.Coded("application/json", coding, in[:len(in)/2], true); r.Status != StatusFailedClosed {
			t.Errorf("%s cut: %s %s", coding, r.Status, r.Text)
		}
	}
	for _, coding := range []string{"snappy", "gzip, gzip, gzip"} {
		if r := s.Coded("application/json", coding, []byte(marker), true); r.Status != StatusFailedClosed || leaks(r.Text, marker) != "" {
			t.Errorf("%s: %s", coding, r.Text)
		}
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	var res Result
	w := forFields(t, "customer_email").Writer(&out, "application/json", "", func(r Result) { res = r })
	for _, part := range []string{`{"customer_`, `email":"bo`, `b"}`} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || strings.TrimSpace(out.String()) != `{"customer_email":"[REDACTED:field]"}` || res.Status != StatusRedacted {
		t.Errorf("%v %s %+v", err, &out, res)
	}
}

func FuzzStream(f *testing.F) {
	for _, c := range streams() {
		f.Add(c[0], c[1], 7)
	}
	f.Fuzz(func(t *testing.T, contentType, text string, cut int) {
		s := forFields(t, "customer_email")
		want := s.Body(contentType, []byte(text), true)
		if want.Status == StatusFailedClosed || len(text) > 16<<10 || cut < 0 || cut > len(text) || strings.TrimSpace(text) == "" {
			return
		}
		var out bytes.Buffer
		if _, err := s.Copy(&out, &pieced{text: []byte(text), cut: cut}, contentType, ""); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != strings.TrimSuffix(want.Text, "\n") {
			t.Fatalf("%s: %q cut at %d\ngot  %q\nwant %q", contentType, text, cut, got, want.Text)
		}
	})
}

// TestStreamCut: of a JSON text that is cut off, what came before the token that it breaks off in is shown.
func TestStreamCut(t *testing.T) {
	s := forFields(t, "customer_email")
	for text, want := range map[string]string{
		`{"a":1,"b":"gh` + `p_0123456789abcdefABCDEF0123456789abcd","c":"` + marker: `{"a":1,"b":"[REDACTED:token]","c":[unparsed `,
		`{"customer_email":["` + marker:                                             `{"customer_email":[unparsed `,
		`{"a":1,"value":"x","z":"` + marker:                                         `{"a":1,"value":"[REDACTED:credential]","z":[unparsed `,
		`[1,"x", 12`:                                                                `[1,"x",[unparsed `,
		`{"a":"` + strings.Repeat(marker, 10000):                                    `{"a":[unparsed `,
	} {
		var out bytes.Buffer
		r, err := s.Copy(&out, strings.NewReader(text), jsonType, "")
		if err != nil || r.Status != StatusFailedClosed || !strings.HasPrefix(out.String(), want) || leaks(out.String(), marker) != "" {
			t.Errorf("%.60q: %v %s %.200q, want %q", text, err, r.Status, &out, want)
		}
	}
}
