package redact

import (
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// ErrCoding is the error of a content coding that is not known, of which there are more than two, or whose data is broken or grows too much.
var ErrCoding = errors.New("redact: the content coding cannot be read")

const (
	maxWindow  = 8 << 20 // of zstd, as RFC 9659 has it
	maxCodings = 2
)

// Decoded returns a reader of what r holds without its content codings (RFC 9110, section 8.4): gzip, br, zstd and deflate; with
// "" and "identity" it is r. It gives at most limit bytes, and then, as for what does not decode, an error that is ErrCoding. A limit
// of 0 is none.
func Decoded(r io.Reader, encoding string, limit int64) (io.Reader, error) {
	codings := strings.Split(encoding, ",")
	n := 0
	for i := len(codings) - 1; i >= 0; i-- {
		coding := strings.ToLower(strings.TrimSpace(codings[i]))
		if coding == "" || coding == "identity" {
			continue
		}
		if n++; n > maxCodings {
			return nil, ErrCoding
		}
		in, err := decoder(r, coding)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", ErrCoding, "bad header or unknown name")
		}
		r = in
	}
	if n == 0 {
		return r, nil
	}
	return &capped{r, limit, limit > 0}, nil
}

func decoder(r io.Reader, coding string) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "br":
		return brotli.NewReader(r), nil
	case "zstd":
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	case "deflate":
		return zlib.NewReader(r)
	}
	return nil, ErrCoding
}

// capped gives an error where its reader has more than it may. The text of a decoder's error is not repeated.
type capped struct {
	in   io.Reader
	left int64
	is   bool
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.is {
		if int64(n) > c.left {
			n, err = int(c.left), ErrCoding
		}
		c.left -= int64(n)
	}
	if err != nil && err != io.EOF {
		err = ErrCoding
	}
	return n, err
}

// maxGrowth is how many times longer than what it came as a coded body may be.
const maxGrowth = 64

// Coded is Body for a payload with content codings. What does not decode, and what grows beyond 4 MiB or 64 times its length,
// becomes its length and a hash.
func (s *Scrubber) Coded(contentType, encoding string, b []byte, complete bool) Result {
	r, err := Decoded(strings.NewReader(string(b)), encoding, min(maxBody, maxGrowth*int64(len(b))))
	if err == nil {
		var plain []byte
		if plain, err = io.ReadAll(r); err == nil && complete {
			return s.Body(contentType, plain, true)
		}
	}
	p := &pass{s: s, body: true}
	return p.result(p.fail(b))
}
