//go:build linux

package cases

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// forms are the ways in which a service may repeat a value.
func forms(v string) map[string]string {
	quoted, _ := json.Marshal(v) // of a string
	out := map[string]string{
		"itself": v, "percent": url.QueryEscape(v), "percent of a path": url.PathEscape(v), "JSON": string(quoted[1 : len(quoted)-1]),
		"HTML": html.EscapeString(v), "hex": hex.EncodeToString([]byte(v)),
	}
	var percent, unicode strings.Builder
	for _, c := range []byte(v) {
		fmt.Fprintf(&percent, "%%%02x", c)
		fmt.Fprintf(&unicode, `\u%04x`, c)
	}
	out["percent, all"], out["JSON, all"] = percent.String(), unicode.String()
	for shift := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
			text = text[(shift*8+5)/6 : (shift+len(v))*8/6] // without what its neighbours share
			out[fmt.Sprintf("%s at %d", name, shift)] = text
		}
	}
	return out
}

// coded puts content codings on a text, the first one first.
func coded(t *testing.T, text string, codings ...string) []byte {
	t.Helper()
	b := []byte(text)
	for _, c := range codings {
		var out bytes.Buffer
		var w io.WriteCloser
		var err error
		switch c {
		case "gzip":
			w = gzip.NewWriter(&out)
		case "br":
			w = brotli.NewWriter(&out)
		case "zstd":
			w, err = zstd.NewWriter(&out)
		case "deflate":
			w = zlib.NewWriter(&out)
		case "raw deflate":
			w, err = flate.NewWriter(&out, flate.BestCompression)
		default:
			t.Fatalf("no coding %q", c)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b = out.Bytes()
	}
	return b
}

// uncoded takes one coding off, as far as it goes.
func uncoded(b []byte, coding string) []byte {
	var r io.Reader
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(b))
	case "br":
		r = brotli.NewReader(bytes.NewReader(b))
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(bytes.NewReader(b)); err == nil {
			defer d.Close()
			r = d
		}
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(b))
	case "raw deflate":
		r = flate.NewReader(bytes.NewReader(b))
	}
	if err != nil || r == nil {
		return nil
	}
	out, _ := io.ReadAll(r) // what there is until it breaks off
	return out
}

// layers returns a body and all that any codings in it hide, three deep.
func layers(b []byte, depth int) string {
	text := string(b)
	if depth == 0 || len(b) == 0 {
		return text
	}
	for _, c := range []string{"gzip", "br", "zstd", "deflate", "raw deflate"} {
		if inner := uncoded(b, c); len(inner) > 0 {
			text += "\n" + layers(inner, depth-1)
		}
	}
	return text
}
