//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The protocols that TLS negotiates.
const (
	alpnH1 = "http/1.1"
	alpnH2 = "h2"
)

// route is the way of one connection: through a proxy's CONNECT or, with no proxy, straight to the target.
type route struct {
	Proxy  string // "127.0.0.1:port", or empty
	Auth   string // value of Proxy-Authorization, or empty
	Target string // "host:port"
	ALPN   string // the one protocol offered over TLS; empty: no TLS
	Call   bool   // requests are tool calls: a POST of callBody, answered with as much, in place of a GET
}

// tunnel is one open connection to the upstream. Its HTTP/1.1 is written by hand, so that the client costs little beside what it
// measures.
type tunnel struct {
	net.Conn
	br *bufio.Reader
	h2 *http.ClientConn // where h2 was agreed
}

var dialer = net.Dialer{Timeout: 10 * time.Second}

// open dials, asks for the tunnel and does the TLS handshake. All I/O of the connection ends at the deadline.
func (r *route) open(deadline time.Time) (*tunnel, error) {
	addr := r.Proxy
	if addr == "" {
		addr = r.Target
	}
	conn, err := dialer.Dial("tcp4", addr)
	if err != nil {
		return nil, err
	}
	t := &tunnel{Conn: conn}
	if err := t.setUp(r, deadline); err != nil {
		conn.Close()
		return nil, err
	}
	return t, nil
}

func (t *tunnel) setUp(r *route, deadline time.Time) error {
	if err := t.SetDeadline(deadline); err != nil {
		return err
	}
	t.br = bufio.NewReaderSize(t.Conn, 4096)
	if r.Proxy != "" {
		if _, err := t.Write(r.connectRequest()); err != nil {
			return err
		}
		if _, err := t.readHead(); err != nil {
			return fmt.Errorf("CONNECT: %w", err)
		}
	}
	if r.ALPN == "" {
		return nil
	}
	return t.secure(r)
}

func (t *tunnel) secure(r *route) error {
	if t.br.Buffered() > 0 {
		return errors.New("the proxy spoke before the handshake")
	}
	name, _, err := net.SplitHostPort(r.Target)
	if err != nil {
		return err
	}
	conn := tls.Client(t.Conn, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{r.ALPN}}) // on loopback, of measured proxies
	if err := conn.Handshake(); err != nil {
		return err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != r.ALPN {
		return fmt.Errorf("negotiated %q, want %q", got, r.ALPN)
	}
	t.Conn = conn
	t.br.Reset(conn)
	if r.ALPN != alpnH2 {
		return nil
	}
	carrier := &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:      new(http.Protocols),
	}
	carrier.Protocols.SetHTTP2(true)
	t.h2, err = carrier.NewClientConn(context.Background(), "https", r.Target)
	return err
}

func (r *route) connectRequest() []byte {
	b := make([]byte, 0, 1024)
	b = append(b, "CONNECT "+r.Target+" HTTP/1.1\r\nHost: "+r.Target+"\r\n"...)
	if r.Auth != "" {
		b = append(b, "Proxy-Authorization: "+r.Auth+"\r\n"...)
	}
	return append(b, "\r\n"...)
}

// getRequest returns a GET; path is "/" or "/N".
func (r *route) getRequest(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + r.Target + "\r\nUser-Agent: bench\r\n\r\n")
}

// requester returns what sends one GET / down t and reads its answer. It may be called again when it has returned.
func (r *route) requester(t *tunnel) (func() error, error) {
	if r.Call {
		return r.caller(t)
	}
	if t.h2 == nil {
		request := r.getRequest("/")
		return func() error { return t.get(request, bodyBytes) }, nil
	}
	request, err := http.NewRequest(http.MethodGet, "https://"+r.Target+"/", nil)
	if err != nil {
		return nil, err
	}
	return func() error { return t.getH2(request, bodyBytes) }, nil
}

func (t *tunnel) getH2(request *http.Request, n int64) error {
	resp, err := t.h2.RoundTrip(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || got != n) {
		err = fmt.Errorf("answered %s with %d bytes, want %d", resp.Status, got, n)
	}
	return err
}

// get sends a request and reads its whole answer of n bytes.
func (t *tunnel) get(request []byte, n int64) error {
	if _, err := t.Write(request); err != nil {
		return err
	}
	length, err := t.readHead()
	if err != nil {
		return err
	}
	if length != n {
		return fmt.Errorf("answer of %d bytes, want %d", length, n)
	}
	return t.discard(n)
}

// discard reads n bytes, past the buffered reader as soon as it is empty.
func (t *tunnel) discard(n int64) error {
	part, err := t.br.Discard(int(min(n, int64(t.br.Buffered()))))
	n -= int64(part)
	if err != nil || n == 0 {
		return err
	}
	if n <= 4096 {
		_, err := t.br.Discard(int(n))
		return err
	}
	buf := make([]byte, 256<<10)
	for n > 0 {
		part, err := t.Conn.Read(buf[:min(n, int64(len(buf)))])
		n -= int64(part)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

var contentLength = []byte("Content-Length: ")

// readHead reads a response head, which must be 200, and returns its Content-Length, 0 when there is none.
func (t *tunnel) readHead() (int64, error) {
	line, err := t.br.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) && !bytes.HasPrefix(line, []byte("HTTP/1.0 200")) {
		return 0, fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	var length int64
	for {
		line, err := t.br.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.ParseInt(string(line[len(contentLength):]), 10, 64); err != nil {
				return 0, err
			}
		}
	}
}
