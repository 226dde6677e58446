package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
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
