package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// h1Conn is a connection to an HTTP/1.1 upstream. One request at a time uses it.
type h1Conn struct {
	origin origin
	tcp    *net.TCPConn
	conn   net.Conn // tcp, or TLS over it
	br     *bufio.Reader
	bw     *bufio.Writer
	chosen bool  // the upstream chose HTTP/1.1 (ALPN), not merely accepted it
	used   bool  // it has carried a request before
	since  int64 // when it began to idle, as clock tells it

	header int // bytes that a header may have
	left   int // of the header that is being read; negative: a body is

	raw   syscall.RawConn // nil: none
	peek  func(fd uintptr) bool
	still bool // what peek found
}

var errHeaderSize = errors.New("the response's header is too large")

func newH1Conn(o origin, tcp *net.TCPConn, conn net.Conn, header int) *h1Conn {
	c := &h1Conn{origin: o, tcp: tcp, conn: conn, header: header, left: -1}
	c.br, c.bw = bufio.NewReaderSize(c, 4<<10), bufio.NewWriterSize(conn, 4<<10)
	if t, ok := conn.(*tls.Conn); ok {
		c.chosen = t.ConnectionState().NegotiatedProtocol == "http/1.1"
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		c.raw = raw
	}
	c.peek = func(fd uintptr) bool {
		c.still = nothingToRead(fd)
		return true // it must not wait
	}
	return c
}

// Read bounds what is read for a header.
func (c *h1Conn) Read(p []byte) (int, error) {
	if c.left < 0 {
		return c.conn.Read(p)
	}
	if c.left == 0 {
		return 0, errHeaderSize
	}
	n, err := c.conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// quiet reports whether an idle connection is as it was left. The upstream may have closed it meanwhile; and nothing that it sent
// unasked may be taken for the answer to the next request.
func (c *h1Conn) quiet() bool {
	if c.raw == nil || c.br.Buffered() > 0 {
		return false
	}
	c.still = false
	return c.raw.Read(c.peek) == nil && c.still
}

// response reads a response's header, final or not.
func (c *h1Conn) response(out *http.Request) (*http.Response, error) {
	c.left = c.header
	res, err := http.ReadResponse(c.br, out)
	c.left = -1
	return res, err
}

// abort closes the socket. It wakes whoever reads or writes, and says nothing to the upstream that could be taken for an end.
func (c *h1Conn) abort() { _ = c.tcp.Close() }
