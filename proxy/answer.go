package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// answer is the http.ResponseWriter of a request that an h1Client carries. The request is one of HTTP/1.1, asked for no upgrade,
// and its body is not waited for with a 100. Nothing is guessed: a response has the length and the type that its header says.
type answer struct {
	client *h1Client
	r      *http.Request
	header http.Header

	status  int
	begun   bool  // the header is written
	none    bool  // no body, whatever the header says (RFC 9110, section 6.4.1)
	chunked bool  // else left counts, once begun
	left    int64 // of the body
	last    bool  // the connection ends with it
	ended   bool
	whole   bool // once ended: the connection can carry another
	armed   time.Time
}

// reset makes it the answer to another request.
func (a *answer) reset(r *http.Request) {
	clear(a.header)
	a.r, a.status, a.begun, a.none, a.chunked, a.left, a.last = r, 0, false, false, false, 0, r.Close
	a.ended = false
}

// Header is cleared when the request is over.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sends an informational response, or notes the final status.
func (a *answer) WriteHeader(status int) {
	switch {
	case a.status != 0:
	case status >= http.StatusOK:
		a.status = status
	default:
		a.writeStatus(status)
		_ = a.header.WriteSubset(a.client.bw, framing)
		_, _ = a.client.bw.WriteString("\r\n")
		_ = a.client.bw.Flush()
	}
}

func (a *answer) writeStatus(status int) {
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	for _, s := range [...]string{"HTTP/1.1 ", strconv.Itoa(status), " ", text, "\r\n"} {
		_, _ = a.client.bw.WriteString(s)
	}
}

// begin writes the header. length is the body's if the header does not say: -1, unknown.
func (a *answer) begin(length int64) {
	if a.begun {
		return
	}
	a.WriteHeader(http.StatusOK)
	a.begun = true
	a.none = a.r.Method == http.MethodHead || a.status == http.StatusNoContent || a.status == http.StatusNotModified
	if given := a.header["Content-Length"]; len(given) > 0 {
		if n, err := strconv.ParseUint(given[0], 10, 63); err == nil {
			length = int64(n)
		}
	} else if a.none {
		length = -1 // what a GET would be told is not known
	}
	a.left, a.chunked = length, length < 0 && !a.none
	a.last = a.last || a.client.tunnel.leaving.Load() || httpguts.HeaderValuesContainsToken(a.header["Connection"], "close")
	a.writeStatus(a.status)
	a.writeFraming(length)
	if a.status == http.StatusNotModified {
		delete(a.header, "Content-Type")
	}
	_ = a.header.WriteSubset(a.client.bw, answerFraming)
	_, _ = a.client.bw.WriteString("\r\n")
}

// answerFraming are the headers that writeFraming writes.
var answerFraming = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Connection": true}

// writeFraming writes the headers that say how long message and connection are (RFC 9112, section 6), and the date.
func (a *answer) writeFraming(length int64) {
	w := a.client.bw
	if a.chunked {
		_, _ = w.WriteString("Transfer-Encoding: chunked\r\n")
	} else if length >= 0 && a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		_, _ = w.WriteString("Content-Length: ")
		_, _ = w.Write(append(strconv.AppendInt(w.AvailableBuffer(), length, 10), '\r', '\n'))
	}
	if a.last {
		_, _ = w.WriteString("Connection: close\r\n")
	}
	if _, given := a.header["Date"]; !given {
		_, _ = w.WriteString("Date: ")
		_, _ = w.Write(append(time.Now().UTC().AppendFormat(w.AvailableBuffer(), http.TimeFormat), '\r', '\n'))
	}
}

// Write writes a piece of the body. More than the header said is refused whole, and ends the connection.
func (a *answer) Write(p []byte) (int, error) {
	a.begin(-1)
	a.left -= int64(len(p))
	switch {
	case a.none && a.r.Method == http.MethodHead:
		return len(p), nil
	case a.none:
		return 0, http.ErrBodyNotAllowed
	case !a.chunked && a.left < 0:
		return 0, http.ErrContentLength
	case len(p) == 0:
		return 0, nil // as a chunk it would be the end
	}
	return len(p), writePiece(a.client.bw, p, a.chunked)
}

// FlushError sends what has been written.
func (a *answer) FlushError() error {
	a.begin(-1)
	return a.client.bw.Flush()
}

// SetReadDeadline bounds reads of the request's body.
func (a *answer) SetReadDeadline(t time.Time) error { return a.client.conn.SetReadDeadline(t) }

// SetWriteDeadline bounds what is written from now on. A bound that is in force and hardly sooner is as good.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if late := t.Sub(a.armed); late >= 0 && late < a.client.slack {
		return nil
	}
	a.armed = t
	return a.client.conn.SetWriteDeadline(t)
}

// finish ends the answer and reports whether the connection can carry another. Only the first call of it does something.
func (a *answer) finish() bool {
	if a.ended {
		return a.whole
	}
	a.ended = true
	a.begin(0)
	if a.chunked {
		a.writeTrailers()
	}
	a.whole = a.client.bw.Flush() == nil && (a.chunked || a.none || a.left == 0) && !a.last
	return a.whole
}

// writeTrailers writes the last chunk and, as net/http does, the headers that were announced as trailers and those with its prefix.
func (a *answer) writeTrailers() {
	w := a.client.bw
	_, _ = w.WriteString("0\r\n")
	var trailers http.Header
	add := func(name string, values []string) {
		if trailers == nil {
			trailers = http.Header{}
		}
		trailers[name] = values
	}
	for _, name := range a.header["Trailer"] {
		if values, there := a.header[name]; there {
			add(name, values)
		}
	}
	for name, values := range a.header {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			add(after, values)
		}
	}
	_ = trailers.Write(w)
	_, _ = w.WriteString("\r\n")
}
