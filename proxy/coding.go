package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// A content coding hides what a response repeats of the credential. So the upstream of a brokered target is asked for none, and one that
// codes nevertheless is decoded: the tool gets the body as it is.

// askPlain asks for a body, and messages in it, without a coding, whatever the tool takes.
func askPlain(h http.Header) {
	h["Accept-Encoding"] = noCoding
	for _, m := range messageCodings {
		delete(h, m.asked)
	}
}

var noCoding = []string{"identity"}

// messageCodings are the headers by which compression of single messages is agreed on, below HTTP's: of WebSocket (RFC 7692; no other
// extension is in use), gRPC (gRPC over HTTP2, "Message-Encoding") and Connect's streams.
var messageCodings = []struct{ asked, given string }{
	{"Sec-Websocket-Extensions", "Sec-Websocket-Extensions"},
	{"Grpc-Accept-Encoding", "Grpc-Encoding"},
	{"Connect-Accept-Encoding", "Connect-Content-Encoding"},
}

var errCoded = errors.New("the body is coded, and cannot be looked into")

// uncoded takes the content codings off a response with a body. Its length and digests are those of the coded body, and so is its
// entity tag, of which a weak one stays (RFC 9110, section 8.8.3.3). A part of a coded body cannot be decoded; it is an error, as are
// messages that are coded one by one.
func uncoded(res *http.Response) error {
	for _, m := range messageCodings {
		if given := res.Header[m.given]; len(given) > 0 && !strings.EqualFold(strings.TrimSpace(strings.Join(given, ",")), "identity") {
			return errCoded
		}
	}
	coding := strings.Join(res.Header["Content-Encoding"], ",")
	if strings.Trim(strings.ToLower(coding), " \t,") == "" || strings.EqualFold(strings.TrimSpace(coding), "identity") {
		return nil
	}
	if res.StatusCode == http.StatusPartialContent || !decodable(coding) {
		return errCoded
	}
	for _, name := range []string{"Content-Encoding", "Content-Length", "Accept-Ranges", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		delete(res.Header, name)
	}
	if tag := res.Header.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		res.Header.Set("Etag", "W/"+tag)
	}
	res.ContentLength = -1
	res.Body = &decodedBody{body: res.Body, coding: coding}
	return nil
}

// A decoder keeps the last of what it gave, as far back as its format may look: of br 16 MiB (RFC 7932, section 9.1), which thirty bytes
// can fill, of zstd what package redact lets it have. What gzip and deflate keep is no more than the buffers of any call.
var windows = map[string]int64{"br": 16 << 20, "zstd": 8 << 20}

// windowsOf returns how many bytes the decoders of the listed codings may keep.
func windowsOf(codings []string) (n int64) {
	for coding := range strings.SplitSeq(strings.Join(codings, ","), ",") {
		n += windows[strings.ToLower(strings.TrimSpace(coding))]
	}
	return n
}

// decode takes the codings off an answer, within the limit of all bodies in memory. That memory is the call's until letGo.
func (c *call) decode(to *client, res *http.Response) *Denial {
	if bodiless(to.r, res) {
		_ = uncoded(res) // for its header
		return nil
	}
	if n := windowsOf(res.Header["Content-Encoding"]); n > 0 {
		if !c.proxy.held.take(c.tool.Name, c.rec.Tenant, n) {
			return deny(Overloaded, "The sidecar's limit of bodies in memory is reached.", nil)
		}
		c.holds += n
	}
	if err := uncoded(res); err != nil {
		return c.failure(err)
	}
	return nil
}

// decodable reports whether each coding of the list can be taken off.
func decodable(list string) bool {
	n := 0
	for coding := range strings.SplitSeq(list, ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "", "identity":
		case "gzip", "x-gzip", "br", "zstd", "deflate":
			n++
		default:
			return false
		}
	}
	return n <= 2
}

// decodedBody begins to decode when it is read: the header must not wait for the body.
type decodedBody struct {
	body   io.ReadCloser
	coding string
	in     io.Reader
	err    error
}

func (d *decodedBody) Read(p []byte) (int, error) {
	if d.in == nil && d.err == nil {
		d.in, d.err = redact.Decoded(d.body, d.coding, 0)
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.in.Read(p)
}

func (d *decodedBody) Close() error { return d.body.Close() }
