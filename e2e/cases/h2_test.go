//go:build linux

package cases

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is HTTP/2 spoken frame by frame.
type h2conn struct {
	conn  *asker
	frame *http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

// h2 opens an intercepted tunnel and begins HTTP/2 in it.
func (w *world) h2(t *testing.T, target string) *h2conn {
	t.Helper()
	a, err := w.tls(t, target, func(c *tls.Config) { c.NextProtos = []string{"h2"} })
	if err != nil {
		t.Fatal(err)
	}
	h := &h2conn{conn: a, frame: http2.NewFramer(a.Conn, a.r)}
	h.enc = hpack.NewEncoder(&h.block)
	h.frame.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.send(t, http2.ClientPreface)
	if err := h.frame.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	_ = a.SetDeadline(time.Now().Add(patience))
	return h
}

// fields encodes names and values in turn.
func (h *h2conn) fields(pairs ...string) []byte {
	h.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = h.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // to a buffer
	}
	return bytes.Clone(h.block.Bytes())
}

func (h *h2conn) headers(t *testing.T, stream uint32, end bool, pairs ...string) {
	t.Helper()
	err := h.frame.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.fields(pairs...), EndStream: end, EndHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
}

func (h *h2conn) data(t *testing.T, stream uint32, end bool, text string) {
	t.Helper()
	if err := h.frame.WriteData(stream, end, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// status reads until a stream is answered. It returns "reset" where the stream was, and "closed" where the connection was.
func (h *h2conn) status(t *testing.T, stream uint32) string {
	t.Helper()
	for {
		f, err := h.frame.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Logf("reading a frame: %v", err)
			}
			return "closed"
		}
		if f.Header().StreamID != stream {
			continue
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return "reset"
		}
	}
}
