package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// continueWait is how long an upstream may take to ask for a body that the client offers (RFC 9110, section 10.1.1).
const continueWait = time.Second

var (
	errUnwanted = errors.New("the upstream answered without asking for the body")
	errRequest  = errors.New("the request cannot be written")
)

// upload writes a request's body on a goroutine of its own. It owns the connection's writer until done is closed.
type upload struct {
	conn    *h1Conn
	out     *http.Request
	body    *requestBody
	proceed chan bool     // whether the body is asked for; nil: nobody need ask
	done    chan struct{} // closed at the end
	err     error         // why it ended early; read after done
}

func newUpload(conn *h1Conn, out *http.Request, body *requestBody) *upload {
	u := &upload{conn: conn, out: out, body: body, done: make(chan struct{})}
	if body.expect {
		u.proceed = make(chan bool, 1)
	}
	return u
}

// answered tells that an answer has come, or none will: whether it asks for the body. The first word counts.
func (u *upload) answered(asks bool) {
	if u.proceed != nil {
		select {
		case u.proceed <- asks:
		default:
		}
	}
}

// wait reports whether the body has gone out whole. While the last of it is under way, the end is waited for a moment.
func (u *upload) wait(complete bool) bool {
	select {
	case <-u.done:
		return u.err == nil
	default:
	}
	if !complete {
		return false
	}
	late := time.NewTimer(sentWait)
	defer late.Stop()
	select {
	case <-u.done:
		return u.err == nil
	case <-late.C:
		return false
	}
}

func (u *upload) run() {
	defer close(u.done)
	if u.err = u.conn.bw.Flush(); u.err != nil { // the upstream may answer before the body comes
		return
	}
	if u.proceed != nil && !u.wanted() {
		u.err = errUnwanted
		return
	}
	u.err = u.copy()
	if u.body.failed() != nil {
		u.conn.abort() // the request is broken, which the upstream must not take for its end
	}
}

// wanted waits for the upstream to ask for a body that is only offered.
func (u *upload) wanted() bool {
	late := time.NewTimer(continueWait)
	defer late.Stop()
	select {
	case asked := <-u.proceed:
		return asked
	case <-late.C:
		return true
	}
}

// copy writes what the client sends as it comes.
func (u *upload) copy() error {
	buf := responseBuffers.Get().(*[32 << 10]byte)
	defer responseBuffers.Put(buf)
	w, chunked := u.conn.bw, u.out.ContentLength < 0
	for {
		n, err := u.body.Read(buf[:])
		if n > 0 {
			_ = writePiece(w, buf[:n], chunked)
		}
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF && chunked {
			_, _ = w.WriteString("0\r\n")
			_ = u.out.Trailer.Write(w)
			_, _ = w.WriteString("\r\n")
		}
		if werr := w.Flush(); werr != nil || err == io.EOF { // a writer keeps its first error
			return werr
		}
	}
}

// writePiece returns the writer's error, which stays.
func writePiece(w *bufio.Writer, p []byte, chunked bool) error {
	if chunked {
		_, _ = w.Write(append(strconv.AppendInt(w.AvailableBuffer(), int64(len(p)), 16), '\r', '\n'))
	}
	_, err := w.Write(p)
	if chunked {
		_, err = w.WriteString("\r\n")
	}
	return err
}

// framing are the headers that say where a message goes and where it ends; they are written from what was decided.
var framing = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// writeHead writes the request line and the header (RFC 9112, sections 3 and 6) into the buffer.
func writeHead(w *bufio.Writer, out *http.Request) error {
	uri := out.URL.RequestURI()
	if !plainText(uri) || strings.IndexByte(uri, ' ') >= 0 || !plainText(out.Host) || !httpguts.ValidHeaderFieldName(out.Method) {
		return errRequest
	}
	for _, s := range [...]string{out.Method, " ", uri, " HTTP/1.1\r\nHost: ", out.Host, "\r\n"} {
		_, _ = w.WriteString(s)
	}
	switch {
	case out.Body != nil && out.ContentLength < 0:
		_, _ = w.WriteString("Transfer-Encoding: chunked\r\n")
		separator := "Trailer: "
		for name := range out.Trailer {
			_, _ = w.WriteString(separator)
			_, _ = w.WriteString(name)
			separator = ", "
		}
		if len(out.Trailer) > 0 {
			_, _ = w.WriteString("\r\n")
		}
	case out.Body != nil, out.Method == http.MethodPost, out.Method == http.MethodPut, out.Method == http.MethodPatch:
		_, _ = w.WriteString("Content-Length: ")
		_, _ = w.Write(append(strconv.AppendInt(w.AvailableBuffer(), max(0, out.ContentLength), 10), '\r', '\n'))
	}
	if err := out.Header.WriteSubset(w, framing); err != nil {
		return err
	}
	_, err := w.WriteString("\r\n")
	return err
}

// plainText reports whether s has no control characters, with which it would end its line.
func plainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
