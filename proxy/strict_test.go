package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// strictServer is an upstream whose parser shares nothing with net/http and forgives nothing: what it reads without complaint, every
// server reads in the same way. It speaks HTTP/1.1, in TLS where the client does.
type strictServer struct {
	port string
	cert tls.Certificate

	mu         sync.Mutex
	requests   []*strictRequest
	violations []string
}

// strictRequest is what was read of one request.
type strictRequest struct {
	method, target string
	header         http.Header // by canonical name; values as they came
	trailer        http.Header
	body           int  // bytes
	complete       bool // its end came
}

var (
	strictLine  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\\*|/[!-\"$-~]*(?:\\?[^\\x00-\\x20\\x7f#]*)?) HTTP/1\\.1$")
	strictField = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
	strictChunk = regexp.MustCompile("^[0-9a-f]{1,8}$")
	errStrict   = errors.New("not in the one form that everybody reads alike")
)

// startStrict listens on loopback. The certificate is set before the first connection.
func startStrict(t testing.TB) *strictServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	s := new(strictServer)
	_, s.port, _ = net.SplitHostPort(ln.Addr().String())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *strictServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	if first, err := r.Peek(1); err != nil {
		return
	} else if first[0] == recordHandshake {
		c = tls.Server(&bufferedConn{c, r}, &tls.Config{Certificates: []tls.Certificate{s.cert}})
		r = bufio.NewReader(c)
	}
	for {
		if err := s.request(c, r); err != nil {
			if errors.Is(err, errStrict) {
				s.mu.Lock()
				s.violations = append(s.violations, err.Error())
				s.mu.Unlock()
			}
			return
		}
	}
}

// request reads one request and answers it.
func (s *strictServer) request(c net.Conn, r *bufio.Reader) error {
	line, err := strictRead(r)
	if err != nil {
		return err
	}
	m := strictLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%w: the request line %q", errStrict, line)
	}
	q := &strictRequest{method: m[1], target: m[2]}
	if q.header, err = strictFields(r); err != nil {
		return err
	}
	if len(q.header["Host"]) != 1 || len(q.header["Content-Length"])+len(q.header["Transfer-Encoding"]) > 1 {
		return fmt.Errorf("%w: %s %s with %v", errStrict, q.method, q.target, q.header)
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	s.mu.Unlock()
	if q.header.Get("Expect") != "" {
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	n, trailer, err := strictBody(r, q.header)
	if err != nil {
		return err
	}
	s.mu.Lock()
	q.body, q.trailer, q.complete = n, trailer, true
	s.mu.Unlock()
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	if q.method != http.MethodHead {
		answer += "ok"
	}
	_, err = io.WriteString(c, answer)
	return err
}

// strictRead reads a line that ends in CRLF and has no other control character but the tab.
func strictRead(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err // among which is the end of a connection that was cut
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return "", fmt.Errorf("%w: the line %q", errStrict, line)
	}
	return text, nil
}

func strictFields(r *bufio.Reader) (http.Header, error) {
	h := http.Header{}
	for {
		line, err := strictRead(r)
		if err != nil || line == "" {
			return h, err
		}
		m := strictField.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%w: the field %q", errStrict, line)
		}
		h.Add(m[1], m[2])
	}
}

func strictBody(r *bufio.Reader, h http.Header) (n int, trailer http.Header, err error) {
	if te := h["Transfer-Encoding"]; len(te) == 1 {
		if te[0] != "chunked" {
			return 0, nil, fmt.Errorf("%w: Transfer-Encoding %q", errStrict, te)
		}
		return strictChunks(r)
	}
	if cl := h["Content-Length"]; len(cl) == 1 {
		size, err := strconv.ParseUint(cl[0], 10, 31)
		if err != nil || strconv.FormatUint(size, 10) != cl[0] {
			return 0, nil, fmt.Errorf("%w: Content-Length %q", errStrict, cl)
		}
		_, err = io.CopyN(io.Discard, r, int64(size))
		return int(size), nil, err
	}
	return 0, nil, nil
}

func strictChunks(r *bufio.Reader) (n int, trailer http.Header, err error) {
	for {
		line, err := strictRead(r)
		if err != nil {
			return n, nil, err
		}
		if !strictChunk.MatchString(line) {
			return n, nil, fmt.Errorf("%w: the chunk size %q", errStrict, line)
		}
		size, _ := strconv.ParseUint(line, 16, 32)
		if size == 0 {
			trailer, err = strictFields(r)
			return n, trailer, err
		}
		if _, err = io.CopyN(io.Discard, r, int64(size)); err != nil {
			return n, nil, err
		}
		n += int(size)
		if end, err := strictRead(r); err != nil || end != "" {
			return n, nil, errors.Join(err, fmt.Errorf("%w: %q after a chunk", errStrict, end))
		}
	}
}

// take returns what came since it was last called.
func (s *strictServer) take() (requests []strictRequest, violations []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.requests {
		requests = append(requests, *q)
	}
	violations = s.violations
	s.requests, s.violations = nil, nil
	return requests, violations
}
