package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPlainRequest(t *testing.T) {
	const get = "GET /a?b=c HTTP/1.1\r\nHost: a.test\r\n"
	for _, c := range []struct {
		name, head string
		plain      bool
	}{
		{"bare", get + "\r\n", true},
		{"a port", "GET / HTTP/1.1\r\nhost: A.test:443\r\n\r\n", true},
		{"a body", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc", true},
		{"another one after it", get + "\r\n" + get + "\r\n", true},
		{"the end of its connection", get + "Connection: close\r\n\r\n", true},
		{"no host", "GET / HTTP/1.1\r\n\r\n", false},
		{"two hosts", get + "Host: a.test\r\n\r\n", false},
		{"a host of another form", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", false},
		{"user info in the host", "GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n", false},
		{"an absolute URL", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"no path", "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"CONNECT", "CONNECT / HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"a small method", "get / HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"no method", " / HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n", false},
		{"HTTP/1.1 and more", "GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n", false},
		{"a space in the path", "GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"a path that is not ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"chunks", get + "Transfer-Encoding: chunked\r\n\r\n", false},
		{"chunks in capitals", get + "TRANSFER-ENCODING: chunked\r\n\r\n", false},
		{"two lengths", get + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false},
		{"a list of lengths", get + "Content-Length: 3, 3\r\n\r\nabc", false},
		{"a length with a sign", get + "Content-Length: +3\r\n\r\nabc", false},
		{"a length beyond all", get + "Content-Length: 9999999999999999999\r\n\r\nabc", false},
		{"trailers", get + "Trailer: X\r\n\r\n", false},
		{"expects", get + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", false},
		{"upgrades", get + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", false},
		{"a folded line", get + "A: b\r\n c\r\n\r\n", false},
		{"a bare line feed", get + "A: b\nTransfer-Encoding: chunked\r\n\r\n", false},
		{"a bare carriage return", get + "A: b\rTransfer-Encoding: chunked\r\n\r\n", false},
		{"a space before the colon", get + "A : b\r\n\r\n", false},
		{"no space after it", get + "A:b\r\n\r\n", false},
		{"spaces around a value", get + "A:  b\r\n\r\n", false},
		{"an underscore", get + "Content_Length: 3\r\n\r\n", false},
		{"a line without a colon", get + "A\r\n\r\n", false},
		{"a blank line first", "\r\n" + get + "\r\n", false},
		{"no end", get, false},
		{"nothing", "", false},
	} {
		if plain := plainRequest([]byte(c.head)) > 0; plain != c.plain {
			t.Errorf("%s: plain is %v", c.name, plain)
		}
		sameAsServer(t, []byte(c.head))
	}
}

// sameAsServer fails if what an h1Client carries is a request that net/http's server refuses, reads otherwise, or ends elsewhere.
func sameAsServer(t *testing.T, b []byte) {
	t.Helper()
	n := plainRequest(b)
	if n == 0 || n > maxPlainRequest {
		return
	}
	br := bufio.NewReaderSize(bytes.NewReader(b), maxPlainRequest)
	got, err := http.ReadRequest(br)
	if err != nil {
		return // handed on
	}
	want, body := readByServer(b)
	if want == nil {
		t.Fatalf("net/http refuses %q", b)
	}
	if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || got.Proto != want.Proto || got.ContentLength != want.ContentLength ||
		got.Close != want.Close || got.TransferEncoding != nil || want.TransferEncoding != nil || got.Trailer != nil || want.Trailer != nil ||
		!reflect.DeepEqual(got.Header, want.Header) || !reflect.DeepEqual(got.URL, want.URL) {
		t.Errorf("%q: read as %+v, by net/http as %+v", b, got, want)
	}
	own := &lengthBody{src: br}
	own.left.Store(got.ContentLength)
	if ours, _ := io.ReadAll(own); !bytes.Equal(ours, body) || !bytes.Equal(ours, b[n:min(len(b), n+len(ours))]) {
		t.Errorf("%q: the body is %q, for net/http %q", b, ours, body)
	}
}

// readByServer returns the first request that net/http's server hands to its handler, with its body; nil: none.
func readByServer(b []byte) (r *http.Request, body []byte) {
	server, client := net.Pipe()
	ln := &oneConn{conn: server, over: make(chan struct{})}
	done := make(chan struct{})
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if r == nil {
				r = req
				body, _ = io.ReadAll(req.Body)
			}
			panic(http.ErrAbortHandler)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(done)
			}
		},
	}
	go func() { _ = s.Serve(ln) }()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	_ = client.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = client.Write(b)
	_ = client.Close()
	<-done
	close(ln.over)
	return r, body
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn net.Conn
	over chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.over
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// FuzzPlainRequest: no more is carried than net/http's server would accept, and it is read the same.
func FuzzPlainRequest(f *testing.F) {
	const head = "GET /a%2fb?c=d;e HTTP/1.1\r\nHost: a.test:443\r\n"
	for _, more := range []string{"", "Accept: a b\r\naccept: c\r\n", "Content-Length: 3\r\n", "content-length: 0\r\nConnection: close\r\n", "Pragma: no-cache\r\n", "Connection: keep-alive, host\r\n", "Te: trailers\r\n", "Http2-Settings: x\r\n"} {
		f.Add([]byte(head + more + "\r\n"))
		f.Add([]byte(head + more + "\r\nabc" + head + "\r\n"))
		f.Add([]byte(strings.ReplaceAll(head+more+"\r\n", "\r\n", "\n")))
	}
	f.Fuzz(sameAsServer)
}
