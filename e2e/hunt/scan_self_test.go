package hunt

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// seeds are the ways in which a text can come out.
var seeds = map[string]func(v string) []byte{
	"as it is":         func(v string) []byte { return []byte(v) },
	"upper case":       func(v string) []byte { return []byte(strings.ToUpper(v)) },
	"half of it":       func(v string) []byte { return []byte(v[5 : 5+len(v)/2]) },
	"quoted":           func(v string) []byte { return fmt.Appendf(nil, "%q", v) },
	"percent":          func(v string) []byte { return each(v, "%%%02x") },
	"Percent":          func(v string) []byte { return each(v, "%%%02X") },
	"twice":            func(v string) []byte { return []byte(url.QueryEscape(string(each(v, "%%%02X")))) },
	"JSON":             func(v string) []byte { return each(v, `\u%04x`) },
	"JSON, twice":      func(v string) []byte { return fmt.Appendf(nil, "%q", each(v, `\u%04x`)) },
	"octal":            func(v string) []byte { return each(v, `\%03o`) },
	"HTML":             func(v string) []byte { return each(v, "&#%d;") },
	"html":             func(v string) []byte { return []byte(html.EscapeString(v)) },
	"hex":              func(v string) []byte { return fmt.Appendf(nil, "%x", v) },
	"Hex":              func(v string) []byte { return fmt.Appendf(nil, "a%X", v) },
	"hex, spaced":      func(v string) []byte { return fmt.Appendf(nil, "% x", v) },
	"hex, Go":          func(v string) []byte { return fmt.Appendf(nil, "%# x", v) },
	"bytes":            func(v string) []byte { return fmt.Appendf(nil, "%v", []byte(v)) },
	"Go bytes":         func(v string) []byte { return fmt.Appendf(nil, "%#v", []byte(v)) },
	"quoted-printable": func(v string) []byte { return each(v, "=%02X") },
	"base64":           func(v string) []byte { return []byte(base64.StdEncoding.EncodeToString([]byte(v))) },
	"base64, 1":        func(v string) []byte { return []byte(base64.StdEncoding.EncodeToString([]byte("x" + v))) },
	"base64, 2":        func(v string) []byte { return []byte(base64.RawURLEncoding.EncodeToString([]byte("xy" + v))) },
	"base64 in base64": func(v string) []byte {
		return []byte(base64.StdEncoding.EncodeToString([]byte(`{"a":"` + base64.RawURLEncoding.EncodeToString([]byte("u:"+v)) + `"}`)))
	},
	"hex in base64": func(v string) []byte {
		return []byte(base64.URLEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(v)))))
	},
	"gzip": func(v string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte("a text around " + v))
		_ = z.Close()
		return b.Bytes()
	},
	"protobuf": func(v string) []byte { return append([]byte{0x0a, byte(len(v))}, v...) },
	"words of a traceback": func(v string) []byte {
		b := []byte("main.f(")
		for at := 0; at+8 <= len(v); at += 8 {
			b = fmt.Appendf(b, "0x%x, ", binary.LittleEndian.Uint64([]byte(v[at:])))
		}
		return append(b, ')')
	},
}

func each(v, format string) (b []byte) {
	for _, c := range []byte(v) {
		b = fmt.Appendf(b, format, c)
	}
	return b
}

// TestScannerFinds: whatever a text was encoded with, it is found in each outlet, and in no other text.
func TestScannerFinds(t *testing.T) {
	var p planted
	secret := p.plant("client secret", "seed")
	p.plant("client secret", "not there")
	for name, seed := range seeds {
		for _, o := range outlets {
			if name == "words of a traceback" && o != crash {
				continue
			}
			around := append([]byte("time=2026-11-30 \x00\x1f msg={\"a\": 1} "), seed(secret)...)
			leaks := judge(look(p.all(), []output{{o, "seeded", append(around, " and more"...)}}))
			if want := o != issuer; (len(leaks) == 1) != want {
				t.Errorf("%s in %s: %d leaks", name, o, len(leaks))
			}
		}
	}
	if leaks := judge(look(p.all(), []output{{logs, "pieces", []byte(secret[:window-1] + " " + secret[window:])}})); len(leaks) != 1 {
		t.Errorf("pieces: %d leaks", len(leaks))
	}
	if leaks := judge(look(p.all(), []output{{logs, "nothing", []byte(secret[:window-1])}})); len(leaks) != 0 {
		t.Errorf("less than a piece: %v", leaks)
	}
}
