//go:build linux

package cases

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// captured is what reached U3, byte by byte, when it answers for api.ok.test.
type captured struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *captured) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *captured) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func (c *captured) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Reset()
}

// capture lets U3 answer for api.ok.test, on both ports, and keeps all that it is sent.
func (l *lab) capture() *captured {
	c := new(captured)
	l.dns.set("api.ok.test", at(addrU3))
	serve := func(conn net.Conn) {
		r := bufio.NewReader(io.TeeReader(conn, c))
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ncaptured"); err != nil {
				return
			}
		}
	}
	l.up.speak(addrU3+":80", serve)
	l.up.speak(addrU3+":443", func(conn net.Conn) { serve(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{l.pki.leaf}})) })
	return c
}

// lines returns the captured lines that begin with one of the header names, whatever their case, and whether "_" stands for "-".
func (c *captured) lines(names ...string) []string {
	var out []string
	for line := range strings.Lines(c.String()) {
		name, _, found := strings.Cut(line, ":")
		name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
		for _, want := range names {
			if found && name == want {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return out
}

// mode is one of the ways in which a request may come to the sidecar.
type mode struct {
	name   string
	dial   func() *asker
	expand func(string) string // fills in {U}, what stands before the path, and {A}, the header line that names the caller
}

// modes are a plain request and one inside an intercepted tunnel, for api.ok.test.
func (w *world) modes(t *testing.T) []mode {
	return []mode{
		{"plain", func() *asker { return w.dial(t) }, strings.NewReplacer("{U}", "http://api.ok.test", "{A}", w.auth()).Replace},
		{"inside", func() *asker { return w.inside(t, "api.ok.test:443") }, strings.NewReplacer("{U}", "", "{A}", "").Replace},
	}
}

// captures runs f in both modes, with a sidecar that has no connection to an upstream yet.
func captures(f func(t *testing.T, w *world, m mode, c *captured)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		fresh := w.lab.world(t)
		c := w.capture()
		for _, m := range fresh.modes(t) {
			t.Run(m.name, func(t *testing.T) {
				c.reset()
				f(t, fresh, m, c)
			})
		}
	}
}

// ask sends one request on a connection of its own and reads the answer.
func (m mode) ask(t *testing.T, method, text string) (*asker, answer) {
	t.Helper()
	a := m.dial()
	a.send(t, m.expand(text))
	return a, a.read(t, method)
}
