package interop

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// blackhole returns a port of loopback that answers no SYN: its queue of connections is full and nobody accepts (listen(2)).
func (w *world) blackhole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name := must[syscall.Sockaddr](t)(syscall.Getsockname(fd))
	port := strconv.Itoa(name.(*syscall.SockaddrInet4).Port)
	eventually(t, "the queue is full", func() bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 500*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return err != nil
	})
	w.ports = append(w.ports, port)
	return port
}

// TestUpstreamsThatDropSYNs: each call ends at the dial timeout with a code, others are answered meanwhile, and nothing is left over.
func TestUpstreamsThatDropSYNs(t *testing.T) {
	const calls = 200
	w := newWorld(t)
	w.limits = "{drain: 2s, dialTimeout: 2s}"
	port := w.serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), false)
	hole := w.blackhole(t)
	s := w.start(t)
	normal := urlOf("http", plainHost, port, "/")
	if got := s.status(normal); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	descriptors := s.descriptors(t)
	conns := make([]net.Conn, calls)
	for i := range conns {
		conns[i] = must[net.Conn](t)(net.Dial("tcp", s.tool))
		defer func() { _ = conns[i].Close() }()
		say := "GET " + urlOf("http", plainHost, hole, "/") + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
		if i%2 == 0 {
			say = fmt.Sprintf("CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address(plainHost, hole))
		}
		_, _ = io.WriteString(conns[i], say)
	}
	for range 20 {
		if got := s.status(normal); got != http.StatusOK {
			t.Errorf("beside the calls that wait: status %d", got)
		}
	}
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		res := must[*http.Response](t)(http.ReadResponse(bufio.NewReader(c), nil))
		if res.StatusCode != http.StatusGatewayTimeout || res.Header.Get("Toolgate-Denial") != "upstream_timeout" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		_ = c.Close()
	}
	eventually(t, "descriptors are given back", func() bool { return s.descriptors(t) <= descriptors+20 })
	s.lives(t)
}
