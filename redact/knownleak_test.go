package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/corpustest"
	"github.com/toolgate/toolgate/redact/known"
)

// heldSecrets are of the shapes that a broker holds. None is anybody's.
var heldSecrets = map[string]string{
	"token":   "tgt_9f8Ab" + "Qw3ZkL0pX7vN2mR5",
	"special": `p/a+s=s w%?"r\d<&'1;`,
	"unicode": "pässwörd-密码-🔑-x9",
	"PEM":     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIGq1mT0sR9vX\nc2Kq4bYw7LpE8nUzD5hJ3fA6oVtM\n-----END PRIVATE KEY-----\n",
	"short":   "k7#Qz!9p",
	"lines":   "first\tline\r\nand \"second\"\nline/",
}

// wrapping is a way in which a service may write a secret down.
type wrapping struct {
	name, contentType, coding string
	wrap                      func(s string) string
	form                      func(s string) string // the secret's own part of it, which must not be seen either
}

func twice(f func(string) string) func(string) string {
	return func(s string) string { return f(f(s)) }
}

func inner(s string) string { q := jsonQuote(s); return q[1 : len(q)-1] }

func wrapped64(width int, end string) func(string) string {
	return func(s string) string {
		text := base64.StdEncoding.EncodeToString([]byte("user:" + s + strings.Repeat("-", 60)))
		var b strings.Builder
		for len(text) > width {
			b.WriteString(text[:width] + end)
			text = text[width:]
		}
		return b.String() + text + end
	}
}

func everyByte(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, format, s[i])
		}
		return b.String()
	}
}

func everyRune(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, format, r)
		}
		return b.String()
	}
}

func lower(f func(string) string) func(string) string {
	percent := regexp.MustCompile(`%..`)
	return func(s string) string { return percent.ReplaceAllStringFunc(f(s), strings.ToLower) }
}

func utf16Escapes(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

func b64(enc *base64.Encoding, before, after string) func(string) string {
	return func(s string) string { return enc.EncodeToString([]byte(before + s + after)) }
}

// b64own is the base64 of nothing but the secret.
func b64own(enc *base64.Encoding, before string) func(string) string {
	skip := (3 - len(before)%3) % 3
	return func(s string) string {
		return enc.WithPadding(base64.NoPadding).EncodeToString([]byte(s[skip:][:(len(s)-skip)/3*3]))
	}
}

func in64(name string, enc *base64.Encoding, before, after string) wrapping {
	w := inJSON(name, b64(enc, before, after))
	w.form = b64own(enc, before)
	return w
}

// inJSON puts an encoded form into a JSON value.
func inJSON(name string, form func(string) string) wrapping {
	return wrapping{name, jsonType, "", func(s string) string { return member("sent " + form(s) + " end") }, form}
}

// wrappings are all of them. What a form of a secret is written in stands around it.
func wrappings() []wrapping {
	w := []wrapping{
		{"text", "text/plain", "", func(s string) string { return "you sent " + s + ", did you?\n" }, same},
		{"json", jsonType, "", member, inner},
		{"json in json", jsonType, "", func(s string) string { return member(member(s)) }, twice(inner)},
		{"json in json in json", jsonType, "", func(s string) string { return member(member(member(s))) }, func(s string) string { return inner(inner(inner(s))) }},
		{"json key", jsonType, "", func(s string) string { return `{"a":{` + jsonQuote(s) + `:1}}` }, inner},
		{"escapes", jsonType, "", func(s string) string { return `{"v":"` + utf16Escapes(s) + `"}` }, utf16Escapes},
		{"form", formType, "", func(s string) string { return "a=1&v=" + url.QueryEscape(s) + "&b=2" }, url.QueryEscape},
		{"form, lower", formType, "", func(s string) string { return "a=1&v=" + lower(url.QueryEscape)(s) }, lower(url.QueryEscape)},
		{"form key", formType, "", func(s string) string { return "a=1&" + url.QueryEscape(s) + "=2" }, url.QueryEscape},
		{"multipart", "multipart/form-data; boundary=xyzzy", "", func(s string) string {
			return "--xyzzy\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n" + s + "\r\n--xyzzy--\r\n"
		}, same},
		{"html", "text/html", "", func(s string) string { return "<p>" + html.EscapeString(s) + "</p>" }, html.EscapeString},
		{"html, decimal", "text/html", "", func(s string) string { return "<p>" + everyRune("&#%d;")(s) + "</p>" }, everyRune("&#%d;")},
		{"html, hex", "text/html", "", func(s string) string { return "<p title=\"" + everyRune("&#x%x;")(s) + "\"></p>" }, everyRune("&#x%x;")},
		{"events", "text/event-stream", "", func(s string) string { return "event: x\ndata: " + member(s) + "\n\ndata: {}\n\n" }, inner},
		{"deltas", "text/event-stream", "", deltas, inner},
		{"ndjson", "application/x-ndjson", "", func(s string) string { return member(s) + "\n{}\n" }, inner},
		{"MIME lines", "text/plain", "", func(s string) string { return "body\r\n\r\n" + wrapped64(76, "\r\n")(s) + "\r\n." }, b64own(base64.StdEncoding, "user:")},
		{"PEM lines", "text/plain", "", func(s string) string {
			return "-----BEGIN DATA-----\n" + wrapped64(64, "\n")(s) + "-----END DATA-----\n"
		}, b64own(base64.StdEncoding, "user:")},
		{"short lines", jsonType, "", func(s string) string { return member("sent " + wrapped64(20, "\n")(s) + " end") }, b64own(base64.StdEncoding, "user:")},
		inJSON("percent every byte", everyByte("%%%02x")),
		inJSON("hex escapes", func(s string) string { return inner(everyByte(`\x%02x`)(s)) }),
		inJSON("hex", func(s string) string { return hex.EncodeToString([]byte(s)) }),
		inJSON("HEX", func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) }),
		inJSON("query", url.QueryEscape), inJSON("query twice", twice(url.QueryEscape)), inJSON("query twice, lower", lower(twice(url.QueryEscape))),
		inJSON("path", url.PathEscape), inJSON("path twice", twice(url.PathEscape)),
		{"url", jsonType, "", func(s string) string { return member("https://h.example/p?q=" + url.QueryEscape(s) + "#f") }, url.QueryEscape},
		{"header block", "text/plain", "", func(s string) string { return "GET / HTTP/1.1\r\nX-Echo: " + s + "\r\n\r\n" }, same},
		{"cookie", "text/plain", "", func(s string) string { return "Cookie: a=b; v=" + url.QueryEscape(s) + "; c=d\r\n" }, url.QueryEscape},
	}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		w = append(w, wrapping{coding, jsonType, coding, func(s string) string { return string(compressed(coding, member(s))) }, inner})
	}
	for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "raw std": base64.RawStdEncoding, "url": base64.URLEncoding, "raw url": base64.RawURLEncoding} {
		for i, before := range []string{"", "u", "u:"} {
			w = append(w, in64(fmt.Sprintf("base64 %s at %d", name, i), enc, before, ""), in64(fmt.Sprintf("base64 %s at %d, more", name, i), enc, before, ": and more of it"))
		}
	}
	return w
}

var (
	base64Runs = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)
	hexRuns    = regexp.MustCompile(`(?:[0-9A-Fa-f]{2}){4,}`)
	spaces     = regexp.MustCompile(`(?:\s|\\[nr])+`)
)

// readings are what a reader can make of a text, one layer off.
func readings(s string) []string {
	joined := spaces.ReplaceAllString(s, "")
	out := []string{unescapeAll(s), html.UnescapeString(s), lenientPercent(s), lenientPercent(strings.ReplaceAll(s, "+", " ")), undelta(s), joined}
	for _, text := range []string{s, joined} {
		for _, run := range base64Runs.FindAllString(text, -1) {
			run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
			for skip := range 4 {
				b, _ := base64.RawStdEncoding.DecodeString(run[skip:][:(len(run)-skip)/4*4])
				out = append(out, string(b))
			}
		}
		for _, run := range hexRuns.FindAllString(text, -1) {
			b, _ := hex.DecodeString(run)
			out = append(out, string(b))
		}
	}
	return out
}

func unescapeAll(s string) string {
	if v := (&view{text: []byte(s)}).unescaped(backslash); v != nil {
		return string(v.text)
	}
	return s
}

// readable says how a secret can be read in a text, by the definition that scores have, or returns "".
func readable(secret, form, shown string) string {
	if n := corpustest.Common(form, shown); n >= max(8, (len(form)+1)/2) {
		return fmt.Sprintf("%d of %d bytes as it was sent", n, len(form))
	}
	texts, seen := []string{shown}, map[string]bool{shown: true}
	for range 3 {
		var next []string
		for _, text := range texts {
			if n := corpustest.Common(secret, text); n >= max(8, (len(secret)+1)/2) {
				return fmt.Sprintf("%d of %d bytes in %.200q", n, len(secret), text)
			}
			for _, r := range readings(text) {
				if len(r) >= 8 && !seen[r] {
					seen[r] = true
					next = append(next, r)
				}
			}
		}
		texts = next
	}
	return ""
}

// atEverySplit gives the input in one piece, in two at every place, and byte by byte, and looks at what comes out each time that it differs.
func atEverySplit(t *testing.T, in, secret, form string, mask func(io.Reader) string) {
	t.Helper()
	seen := map[string]bool{}
	check := func(how string, r io.Reader) bool {
		out := mask(r)
		if seen[out] {
			return true
		}
		seen[out] = true
		if l := readable(secret, form, out); l != "" {
			t.Errorf("%s: %s\nin  %.600q\nout %.600q", how, l, in, out)
			return false
		}
		return true
	}
	if !check("in one", strings.NewReader(in)) || !check("byte by byte", &pieced{text: []byte(in)}) {
		return
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(in); i += step {
		if !check(fmt.Sprintf("split at %d", i), &pieces{in[:i], in[i:]}) {
			return
		}
	}
}

// TestHeldSecretInPayloads: a payload that is logged shows nothing of a credential that the process holds.
func TestHeldSecretInPayloads(t *testing.T) {
	for shape, secret := range heldSecrets {
		s := Live(New(secret))
		for _, w := range wrappings() {
			t.Run(shape+" in "+w.name, func(t *testing.T) {
				atEverySplit(t, w.wrap(secret), secret, w.form(secret), func(r io.Reader) string {
					var out bytes.Buffer
					if _, err := new(Scrubber).Copy(&out, r, w.contentType, w.coding); err != nil {
						t.Fatal(err)
					}
					return out.String()
				})
			})
		}
		runtime.KeepAlive(s)
	}
}

// TestHeldSecretInResponses: a response that repeats a credential does not give it to the tool, and keeps its length.
func TestHeldSecretInResponses(t *testing.T) {
	for shape, secret := range heldSecrets {
		set := known.New()
		set.Add(New(secret))
		for _, w := range wrappings() {
			t.Run(shape+" in "+w.name, func(t *testing.T) {
				in := w.wrap(secret)
				if w.coding != "" {
					plain, err := Decoded(strings.NewReader(in), w.coding, 0)
					if err != nil {
						t.Fatal(err)
					}
					b, _ := io.ReadAll(plain)
					in = string(b)
				}
				atEverySplit(t, in, secret, w.form(secret), func(r io.Reader) string {
					b, err := io.ReadAll(MaskKnown(r, set))
					if err != nil || len(b) != len(in) {
						t.Fatalf("%d bytes of %d, %v", len(b), len(in), err)
					}
					return string(b)
				})
			})
		}
	}
}

// TestHeldSecretAtEndsOfBlocks: text is looked at in blocks of lines, and a credential of several lines may stand at the end of one.
func TestHeldSecretAtEndsOfBlocks(t *testing.T) {
	secret := heldSecrets["lines"]
	s := Live(New(secret))
	for _, form := range []string{secret, wrapped64(20, "\n")(secret)} {
		for before := maxBlock - len(form) - 8; before <= maxBlock+8; before++ {
			in := strings.Repeat("seven l\n", before/8) + strings.Repeat("x", before%8) + "\n" + form + "\n" + strings.Repeat("some more\n", 200)
			out := new(Scrubber).Body("text/plain", []byte(in), true)
			if l := readable(secret, b64own(base64.StdEncoding, "user:")(secret), strings.ReplaceAll(out.Text, "seven l\n", "")); l != "" {
				t.Fatalf("%d bytes before it: %s", before, l)
			}
			if kept := strings.Count(out.Text, "some more\n"); kept != 200 {
				t.Fatalf("%d bytes before it: only %d lines of 200 are left", before, kept)
			}
		}
	}
	runtime.KeepAlive(s)
}

// TestWrappedBase64: what is no credential of the process is found in base64 over lines as well, and what is harmless stays.
func TestWrappedBase64(t *testing.T) {
	long := func(s string) string { return wrapped64(64, "\r\n")(strings.Repeat("nothing of note. ", 8) + s) }
	for text, kept := range map[string]bool{long("password=hun7er2-and-more "): false, long("nothing here"): true, "one line of sixteen\nwords_of_sixteen\nwords_of_sixteen\n": true} {
		in := "attached:\r\n\r\n" + text + "\r\nregards"
		out := new(Scrubber).Body("text/plain", []byte(in), true).Text
		if (out == in) != kept || !strings.HasPrefix(out, "attached:") || !strings.HasSuffix(out, "regards") {
			t.Errorf("%q", out)
		}
	}
}
