package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

func coded(status int, coding, body string) *http.Response {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(body))
	_ = w.Close()
	if coding == "" {
		b.Reset()
		b.WriteString(body)
	}
	h := http.Header{"Content-Encoding": {coding}, "Etag": {`"v1"`}, "Content-Length": {"99"}, "Accept-Ranges": {"bytes"}}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(&b)}
}

// A part of a coded body cannot be decoded, and neither can a coding that is not known: nobody could see what such a body repeats.
func TestCodedBodies(t *testing.T) {
	for _, c := range []struct {
		name, coding string
		status       int
		err          error
	}{
		{"whole", "gzip", http.StatusOK, nil},
		{"an error's", "gzip", http.StatusBadGateway, nil},
		{"two codings", "identity, gzip", http.StatusOK, nil},
		{"none", "", http.StatusPartialContent, nil},
		{"identity", "Identity", http.StatusPartialContent, nil},
		{"a part", "gzip", http.StatusPartialContent, errCoded},
		{"a part, in capitals", " GZIP ", http.StatusPartialContent, errCoded},
		{"a part, of a coding that is none after another", "identity, gzip", http.StatusPartialContent, errCoded},
		{"unknown", "aes128gcm", http.StatusOK, errCoded},
		{"three codings", "gzip, gzip, gzip", http.StatusOK, errCoded},
	} {
		coding := c.coding
		if strings.EqualFold(coding, "identity") {
			coding = ""
		}
		res := coded(c.status, coding, "a body")
		res.Header.Set("Content-Encoding", c.coding)
		if err := uncoded(res); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.err != nil {
			continue
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "a body" {
			t.Errorf("%s: %q %v", c.name, body, err)
		}
		if coding != "" && (res.Header.Get("Content-Encoding") != "" || res.Header.Get("Etag") != `W/"v1"` || res.ContentLength != -1 || res.Header.Get("Accept-Ranges") != "") {
			t.Errorf("%s: its header tells of the coded body: %v", c.name, res.Header)
		}
	}
}

// What decoders keep of answers is bounded, and given back: thirty bytes of br take 16 MiB.
func TestDecodersMemory(t *testing.T) {
	for coding, window := range map[string]int64{"br": 16 << 20, "BR, gzip": 16 << 20, "zstd": 8 << 20, "br, br": 32 << 20, "gzip": 0, "gzip, deflate": 0} {
		if got := windowsOf(strings.SplitAfter(coding, ",")); got != window {
			t.Errorf("%s: %d", coding, got)
		}
	}
	overHeld(t, func(t *testing.T, l *lab, r route, reads chan got) {
		l.mux.HandleFunc("/coded", func(w http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			var in io.WriteCloser = gzip.NewWriter(&b)
			coding := r.URL.RawQuery
			if coding == "br" {
				in = brotli.NewWriter(&b)
			}
			_, _ = io.WriteString(in, "a body")
			_ = in.Close()
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write(b.Bytes())
		})
		most := int64(maxHeld - 16<<20 + 1)
		if !l.proxy.held.take("t2", "", most) {
			t.Fatal("the memory is taken")
		}
		for _, c := range []struct {
			method, query string
			status        int
		}{{"GET", "br", 503}, {"HEAD", "br", 200}, {"GET", "gzip", 200}} {
			req := l.getRequest(r, "/coded?"+c.query)
			req.Method = c.method
			res := l.do(r, req)
			b, _ := io.ReadAll(res.Body)
			if res.StatusCode != c.status || c.status == 503 && problemOf(t, string(b)).Code != Overloaded {
				t.Errorf("%s %s: %d %s", c.method, c.query, res.StatusCode, b)
			}
		}
		l.proxy.held.give("t2", "", most)
		l.free()
		res := l.do(r, l.getRequest(r, "/coded?br"))
		if b, err := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "a body" || err != nil {
			t.Errorf("%d %q %v", res.StatusCode, b, err)
		}
	})
}
