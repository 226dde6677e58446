package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/toolgate/toolgate/redact/corpustest"
	"github.com/toolgate/toolgate/redact/detect"
)

// carrier is a way in which a text may come.
type carrier struct {
	name string
	mask func(s *Scrubber, text string) string // puts the text in, masks, and gives what is shown
	read func(shown string) string             // takes the text out again, as a reader could
}

func jsonQuote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// unquote returns the string of the member "v".
func unquote(shown string) string {
	var m struct{ V string }
	if json.Unmarshal([]byte(shown), &m) != nil {
		return shown
	}
	return m.V
}

func body(contentType string, wrap func(string) string) func(*Scrubber, string) string {
	return func(s *Scrubber, text string) string { return s.Body(contentType, []byte(wrap(text)), true).Text }
}

func same(s string) string { return s }

func member(s string) string { return `{"id":7,"v":` + jsonQuote(s) + `}` }

var words64 = regexp.MustCompile(`[A-Za-z0-9+/_-]{12,}`)

func unbase64(s string) string {
	return words64.ReplaceAllStringFunc(s, func(w string) string {
		b, err := base64.RawStdEncoding.DecodeString(w)
		if err != nil {
			return w
		}
		return string(b)
	})
}

func escaped16(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r = '?'
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// deltas are the pieces of a text as a language model gives them.
func deltas(text string) string {
	var b strings.Builder
	runes := []rune(text)
	for n := 0; len(runes) > 0; n++ {
		k := min(3+n%4, len(runes))
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", jsonQuote(string(runes[:k])))
		runes = runes[k:]
	}
	return b.String() + "data: [DONE]\n\n"
}

var contents = regexp.MustCompile(`"content":("(?:[^"\\]|\\.)*")`)

func undelta(s string) string {
	var b strings.Builder
	for _, m := range contents.FindAllStringSubmatch(s, -1) {
		var piece string
		_ = json.Unmarshal([]byte(m[1]), &piece)
		b.WriteString(piece)
	}
	return b.String()
}

func compressed(coding, text string) []byte {
	var b bytes.Buffer
	switch coding {
	case "gzip":
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
	case "br":
		w := brotli.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
	case "zstd":
		w, _ := zstd.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
	}
	return b.Bytes()
}

func coded(coding string) func(*Scrubber, string) string {
	return func(s *Scrubber, text string) string {
		return s.Coded("application/json", coding, compressed(coding, member(text)), true).Text
	}
}

const formType = "application/x-www-form-urlencoded"

var carriers = []carrier{
	{"raw", body("text/plain", same), same},
	{"json", body(jsonType, member), unquote},
	{"json in json", body(jsonType, func(s string) string { return member(member(s)) }), func(s string) string { return unquote(unquote(s)) }},
	{"query once", body(jsonType, func(s string) string { return member("/p?a=1&q=" + url.QueryEscape(s)) }), func(s string) string { return lenientPercent(unplus(unquote(s))) }},
	{"query twice", body(jsonType, func(s string) string { return member("/p?a=1&q=" + url.QueryEscape(url.QueryEscape(s))) }),
		func(s string) string { return lenientPercent(unplus(lenientPercent(unquote(s)))) }},
	{"form", body(formType, func(s string) string { return "a=1&v=" + url.QueryEscape(s) }), func(s string) string { return lenientPercent(unplus(s)) }},
	{"multipart", body("multipart/form-data; boundary=xyzzy", func(s string) string {
		return "--xyzzy\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n" + s + "\r\n--xyzzy--\r\n"
	}), same},
	{"base64", body(jsonType, func(s string) string { return member(base64.StdEncoding.EncodeToString([]byte(s))) }), func(s string) string { return unbase64(unquote(s)) }},
	{"escapes", body(jsonType, func(s string) string { return `{"v":"` + escaped16(s) + `"}` }), unquote},
	{"header", func(_ *Scrubber, s string) string { return headerValue("Content-Disposition", s) }, same},
	{"cookie", func(_ *Scrubber, s string) string { return headerValue("Cookie", "v="+url.QueryEscape(s)) }, func(s string) string { return lenientPercent(unplus(s)) }},
	{"deltas", body("text/event-stream", deltas), undelta},
	{"events", body("text/event-stream", func(s string) string { return "event: x\ndata: " + member(s) + "\n\n" }),
		func(s string) string { return unquote(strings.TrimSpace(s[strings.Index(s, "data: ")+6:])) }},
	{"ndjson", body("application/x-ndjson", func(s string) string { return member(s) + "\n{}\n" }), func(s string) string { return unquote(strings.TrimSuffix(s, "\n{}")) }},
	{"html", body("text/html", func(s string) string { return "<p>" + html.EscapeString(s) + "</p>" }), html.UnescapeString},
	{"gzip", coded("gzip"), unquote},
	{"br", coded("br"), unquote},
	{"zstd", coded("zstd"), unquote},
}

func unplus(s string) string { return strings.ReplaceAll(s, "+", " ") }

// masksAll are the carriers of which only names are shown: nothing that they carry can be kept.
var masksAll = map[string]bool{"header": true, "cookie": true}

func allClasses(t testing.TB, fields ...string) *Scrubber {
	t.Helper()
	s, err := NewRules(Rules{Fields: fields, Classes: detect.PII})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unspaced is a text without what carriers change: spaces, line ends, and how controls are written.
func unspaced(s string) string {
	return strings.NewReplacer(" ", "", "\r", "", "\t", "", "\n", "").Replace(s)
}

// TestScore holds each carrier to its numbers.
func TestScore(t *testing.T) {
	all := corpustest.Load(t, "..")
	s := allClasses(t)
	for _, c := range carriers {
		found, secrets := map[string]int{}, map[string]int{}
		keeps, touched := 0, 0
		var beside overRedaction
		var show []string
		for _, k := range all {
			text := strings.ToValidUTF8(k.Text, "?")
			shown := c.mask(s, text)
			out := c.read(shown)
			if k.Expected == "keep" {
				keeps++
				if !strings.Contains(unspaced(out), unspaced(escapeHidden(text))) && !strings.Contains(unspaced(out), unspaced(text)) {
					touched++
					show = append(show, "touched "+k.Class+" "+text+" => "+out)
				}
				continue
			}
			beside.add(text, k.Secrets, out)
			for _, secret := range k.Secrets {
				secrets[k.Class]++
				if !corpustest.Leaks(secret, out) {
					found[k.Class]++
				} else {
					show = append(show, "missed "+k.Class+" "+text+" => "+out)
				}
			}
		}
		sum := 0.0
		for class := range secrets {
			sum += float64(found[class]) / float64(secrets[class])
		}
		macro, over := sum/float64(len(secrets)), float64(touched)/float64(keeps)
		least, most := 0.95, 0.05
		if c.name == "raw" {
			least = 0.97
		}
		summary := fmt.Sprintf("%-13s macro recall %.4f over %d classes, keeps touched %d of %d (%.1f %%), %.1f %% of the bytes beside secrets", c.name, macro, len(slices.Collect(maps.Keys(secrets))), touched, keeps,
			100*over, beside.percent())
		if macro < least || over > most && !masksAll[c.name] {
			t.Error(summary)
		} else {
			t.Log(summary)
		}
		if os.Getenv("TOOLGATE_REDACTION_CASES") == c.name {
			for _, line := range show {
				t.Logf("  %.400q", line)
			}
		}
	}
}
