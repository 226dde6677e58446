package hunt

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func fetch(url string) (int, []byte) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0, */*;q=0.1") // with exemplars
	res, err := c.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, b
}

// patience is longer than anything takes.
const patience = time.Minute

func (w *world) dial(t *testing.T, listener string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.at[listener])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// proxyAuth is a caller's token as a proxy password.
func proxyAuth(user, token string) string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+token)) + "\r\n"
}

// connect opens a tunnel to a host of the target's, or returns nil and notes the refusal.
func (w *world) connect(t *testing.T, listener, authority, header string) net.Conn {
	t.Helper()
	conn := w.dial(t, listener)
	_, _ = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", authority, authority, header)
	b := make([]byte, 0, 4096)
	for !strings.Contains(string(b), "\r\n\r\n") {
		var one [1]byte
		if _, err := conn.Read(one[:]); err != nil {
			_, _ = w.tool.Write(b)
			return nil
		}
		b = append(b, one[0])
	}
	_, _ = w.tool.Write(b)
	if !strings.HasPrefix(string(b), "HTTP/1.1 200") {
		_, _ = io.Copy(&w.tool, conn)
		return nil
	}
	return conn
}

// secure is TLS in a tunnel, with the sidecar's CA trusted, or the upstream's where a tunnel is relayed.
func (w *world) secure(t *testing.T, conn net.Conn, name string, protocols ...string) *tls.Conn {
	t.Helper()
	pool, file := x509.NewCertPool(), "out/ca.pem"
	if name == "blind.hunt.test" {
		file = "upstream-ca.pem"
	}
	b, err := os.ReadFile(filepath.Join(w.dir, file))
	if err != nil || !pool.AppendCertsFromPEM(b) {
		t.Fatal(file, err)
	}
	c := tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: name, NextProtos: protocols})
	if err := c.Handshake(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// raw sends bytes as a request in an intercepted tunnel to host, and returns all that comes back.
func (w *world) raw(t *testing.T, host, request string) string {
	t.Helper()
	conn := w.connect(t, "tool", host+":"+w.up.port, proxyAuth("agent", w.task))
	if conn == nil {
		return "no tunnel"
	}
	return w.say(t, w.secure(t, conn, host), request)
}

// say sends bytes and returns what comes back until the end. Requests ask for the connection to be closed.
func (w *world) say(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	_, _ = io.WriteString(conn, request)
	b, _ := io.ReadAll(conn) // an error is an end as well
	_ = conn.Close()
	_, _ = w.tool.Write(b)
	return string(b)
}

// get is a plain request in such a tunnel.
func (w *world) get(t *testing.T, host, path string, header ...string) string {
	t.Helper()
	return w.raw(t, host, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n%s\r\n", path, host, w.up.port, lines(header)))
}

func lines(header []string) string {
	if len(header) == 0 {
		return ""
	}
	return strings.Join(header, "\r\n") + "\r\n"
}

// plain sends bytes to the proxy port itself.
func (w *world) plainly(t *testing.T, request string) string {
	t.Helper()
	return w.say(t, w.dial(t, "tool"), request)
}

// h2 returns a client that speaks HTTP/2 in tunnels.
func (w *world) h2(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(_ context.Context, _, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		conn := w.connect(t, "tool", address, proxyAuth("agent", w.task))
		if conn == nil {
			return nil, fmt.Errorf("no tunnel to %s", address)
		}
		return w.secure(t, conn, host, "h2"), nil
	}}
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// do makes a request and notes all of its answer.
func (w *world) do(t *testing.T, tr http.RoundTripper, req *http.Request) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := tr.RoundTrip(req.WithContext(ctx))
	if err != nil {
		_, _ = fmt.Fprintln(&w.tool, err)
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	out := bufio.NewWriter(&w.tool)
	_ = res.Header.Write(out)
	_, _ = io.Copy(out, res.Body)
	_ = res.Trailer.Write(out)
	_ = out.Flush()
	return res.StatusCode
}
