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
	h["Accept-Encoding"] = []string{"identity"}
	for _, m := range messageCodings {
		delete(h, m.asked)
	}
}

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
