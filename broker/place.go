package broker

import (
	"net/http"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// placing puts a credential on a request that is on its way out. One of them serves many requests at once.
type placing interface {
	// body returns how many bytes of the request's body place must see at most, and 0 where it needs none. A request
	// with more is refused.
	body(out *http.Request) int64
	// place removes every copy of what the credential owns, whoever set it, and sets it anew. body is the whole body where it
	// was asked for; what is returned is sent in its stead. The reason is empty where that went well.
	place(out *http.Request, body []byte) ([]byte, Reason)
}

// BodyLimit returns how many bytes of the body Apply has to be given at most; 0: none, and the body may be streamed.
func (c *Credential) BodyLimit(out *http.Request) int64 { return c.put.body(out) }

// Apply puts the credential on the request, which must be the outgoing one, with its URL and Host as they will be sent. Every copy
// of what it sets is removed first. body is the request's whole body where BodyLimit asked for it, else nil; what is returned is to be
// sent in its stead, with its own length. Errors: *Error, after which the request must not be sent.
func (c *Credential) Apply(out *http.Request, body []byte) ([]byte, error) {
	reason := c.spent()
	if reason == "" {
		if c.lease != nil {
			c.lease.use()
		}
		body, reason = c.put.place(out, body)
	}
	if reason != "" {
		e := newError(c.ref.Binding, reason)
		e.Detail = c.hint
		return nil, e
	}
	return body, nil
}

// spent returns why a credential that was had a moment ago must not be sent any more. A body that was held may have taken its time.
func (c *Credential) spent() Reason {
	switch {
	case c.at != nil && c.at.dropped.Load():
		return Cancelled
	case over(c.ref.Expires, time.Now()):
		return Expired
	}
	return ""
}

// inHeader is a credential that is a header's value.
type inHeader struct {
	header string        // in canonical spelling
	line   redact.Secret // prefix and value
}

func (*inHeader) body(*http.Request) int64 { return 0 }

// place removes the header in any spelling that servers fold together (case, underscore for hyphen).
func (p *inHeader) place(out *http.Request, body []byte) ([]byte, Reason) {
	removeFolded(out.Header, p.header)
	removeFolded(out.Trailer, p.header)
	if out.Header == nil {
		out.Header = make(http.Header, 1)
	}
	out.Header[p.header] = []string{p.line.Reveal()}
	return body, ""
}

func removeFolded(h http.Header, name string) {
	for k := range h {
		if foldsTo(k, name) {
			delete(h, k)
		}
	}
}

// foldsTo reports whether a and b become one name in servers that hand headers on as variables (RFC 3875, section 4.1.18).
func foldsTo(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
